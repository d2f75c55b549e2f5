#include "worker/audit/audit_line.h"

#include <charconv>
#include <utility>

#include <nlohmann/json.hpp>

namespace ringmaster::audit {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxNumber = int64_t{1} << 53;  // what JSON numbers hold exactly

// Reads the fields of one object; the first thing wrong is kept.
class Fields {
 public:
  Fields(const Json& object, std::string& wrong) : object_(object), wrong_(wrong) {
    if (!object.is_object()) Wrong("the line", "is no object");
  }

  int64_t Number(const char* name, int64_t least) {
    const Json* json = Find(name);
    return json == nullptr ? 0 : Number(*json, name, least);
  }

  // [first, second], both from 0.
  std::pair<int64_t, int64_t> Pair(const char* name) {
    const Json* json = Find(name);
    if (json == nullptr) return {};
    if (!json->is_array() || json->size() != 2) {
      Wrong(name, "is not two numbers");
      return {};
    }
    return {Number((*json)[0], name, 0), Number((*json)[1], name, 0)};
  }

  Epoch EpochOf(const char* name) {
    const auto [term, number] = Pair(name);
    return {.term = term, .number = number};
  }

  uint64_t Checksum(const char* name) {
    const Json* json = Find(name);
    if (json == nullptr) return 0;
    uint64_t value = 0;
    const std::string text = json->is_string() ? json->get<std::string>() : "";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) {
      Wrong(name, "is not 16 hexadecimal digits");
    }
    return value;
  }

  std::optional<uint64_t> OptionalChecksum(const char* name) {
    if (!object_.is_object() || !object_.contains(name)) return std::nullopt;
    return Checksum(name);
  }

  std::vector<std::string> Texts(const char* name) {
    const Json* json = Find(name);
    std::vector<std::string> texts;
    if (json == nullptr) return texts;
    if (!json->is_array()) Wrong(name, "is no list");
    for (const Json& item : *json) {
      if (item.is_string()) {
        texts.push_back(item.get<std::string>());
      } else {
        Wrong(name, "is no list of texts");
      }
    }
    return texts;
  }

  // One of two texts; empty where there is no such field.
  std::string OptionalWord(const char* name, const char* one, const char* other) {
    if (!object_.is_object() || !object_.contains(name)) return "";
    const Json& json = object_[name];
    if (json == one) return one;
    if (json == other) return other;
    Wrong(name, "is no word that is known");
    return "";
  }

  const Json& Object(const char* name) {
    static const Json kNone = Json::object();
    const Json* json = Find(name);
    return json == nullptr ? kNone : *json;
  }

  void Wrong(const std::string& name, const char* what) {
    if (wrong_.empty()) wrong_ = name + " " + what;
  }

 private:
  const Json* Find(const char* name) {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    Wrong(std::string("field ") + name, "is missing");
    return nullptr;
  }

  int64_t Number(const Json& json, const char* name, int64_t least) {
    const bool fits =
        json.is_number_integer() &&
        (!json.is_number_unsigned() || json.get<uint64_t>() <= static_cast<uint64_t>(kMaxNumber));
    const int64_t value = fits ? json.get<int64_t>() : least - 1;
    if (value < least || value > kMaxNumber) Wrong(name, "is no number in range");
    return value;
  }

  const Json& object_;
  std::string& wrong_;
};

int RankIn(Fields& fields, int64_t size) {
  const int64_t rank = fields.Number("rank", 0);
  if (rank >= size) fields.Wrong("rank", "is not below the world's size");
  return static_cast<int>(rank);
}

WorldLine ReadWorld(const Json& json, std::string& wrong) {
  Fields fields(json, wrong);
  WorldLine line;
  line.epoch = {.term = fields.Number("term", 0), .number = fields.Number("number", 0)};
  line.members = fields.Texts("members");
  const int64_t size = fields.Number("size", 1);
  if (size != static_cast<int64_t>(line.members.size())) {
    fields.Wrong("members", "are not as many as the world's size");
  }
  if (size > kMostRanks) fields.Wrong("size", "is too large");
  line.rank = RankIn(fields, size);
  line.global_batch = fields.Number("global_batch", 1);
  line.checksum = fields.Checksum("checksum");
  line.sharded = fields.OptionalChecksum("sharded");
  Fields adopted(fields.Object("adopted"), wrong);
  line.adopted_epoch = adopted.EpochOf("epoch");
  line.adopted_step = adopted.Number("step", 0);
  line.adopted_from = adopted.OptionalWord("from", "checkpoint", "snapshot");
  return line;
}

StepLine ReadStep(const Json& json, bool applied, std::string& wrong) {
  Fields fields(json, wrong);
  StepLine line;
  line.epoch = fields.EpochOf("epoch");
  line.step = fields.Number("step", 1);
  line.rank = RankIn(fields, kMostRanks);
  const auto [begin, end] = fields.Pair("samples");
  line.samples = {.begin = begin, .end = end};
  if (begin > end) fields.Wrong("samples", "end before they begin");
  if (applied) {
    line.checksum = fields.Checksum("checksum");
    line.part = fields.OptionalChecksum("part");
  }
  return line;
}

}  // namespace

Result<AuditLine> ParseLine(std::string_view text) {
  if (text.size() > kMaxLineBytes) return Error{ErrorKind::kInvalid, "the line is too long"};
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Error{ErrorKind::kInvalid, "the line is no JSON"};
  std::string wrong;
  AuditLine line;
  if (json.is_object() && json.contains("world")) {
    line = ReadWorld(json["world"], wrong);
  } else if (json.is_object() && json.contains("begun")) {
    line = ReadStep(json["begun"], /*applied=*/false, wrong);
  } else {
    line = ReadStep(json, /*applied=*/true, wrong);
  }
  if (!wrong.empty()) return Error{ErrorKind::kInvalid, wrong};
  return line;
}

}  // namespace ringmaster::audit
