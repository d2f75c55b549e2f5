#include "common/json/json.h"

#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/json/fields.h"

namespace ringmaster {

Result<Json> ParseJson(std::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Error{ErrorKind::kInvalid, "the text is not JSON"};
  return json;
}

Result<Json> ParseJsonObject(std::string_view text) {
  Result<Json> json = ParseJson(text);
  if (json.ok() && !json->is_object()) {
    return Error{ErrorKind::kInvalid, "the text is not a JSON object"};
  }
  return json;
}

std::string DumpJson(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<int64_t> IntegerIn(const Json& json, int64_t least, int64_t most) {
  if (!json.is_number_integer()) return std::nullopt;
  // A number above the largest int64_t must not become negative.
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  const auto number = json.get<int64_t>();
  if (number < least || number > most) return std::nullopt;
  return number;
}

std::string JsonPlace::Text() const {
  std::string text = outer == nullptr ? std::string() : outer->Text();
  if (name.data() == nullptr) return text + '[' + std::to_string(index) + ']';
  if (!text.empty()) text += '.';
  return text.append(name);
}

bool JsonFindings::Note(const JsonPlace& place, std::string what) {
  if (longest_text || !wrong.empty()) return false;
  const std::string path = place.Text();
  wrong = path.empty() ? std::move(what) : "field '" + path + "': " + what;
  return false;
}

}  // namespace ringmaster
