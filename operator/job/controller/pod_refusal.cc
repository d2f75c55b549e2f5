#include "operator/job/controller/pod_refusal.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/json/json.h"
#include "operator/api/names.h"
#include "operator/api/typed_fields.h"
#include "operator/job/manifests/pods.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

bool IsPathCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("._-[]/").find(c) != std::string_view::npos;
}

// Returns true if `text` is a number with the suffix of a quantity.
bool IsQuantity(const std::string& text) {
  static constexpr std::array<std::string_view, 15> kSuffixes = {
      "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi"};
  std::size_t at = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
  const std::size_t digits = text.find_first_not_of("0123456789.", at);
  const std::string_view number = std::string_view(text).substr(at, digits - at);
  if (number.find_first_of("0123456789") == std::string_view::npos) return false;
  const std::string_view suffix =
      digits == std::string::npos ? std::string_view() : std::string_view(text).substr(digits);
  if (std::find(kSuffixes.begin(), kSuffixes.end(), suffix) != kSuffixes.end()) return true;
  int exponent = 0;  // an exponent such as 1e3, or the suffix Ei
  const std::string_view power = suffix.substr(std::min<std::size_t>(1, suffix.size()));
  const auto [end, error] = std::from_chars(power.data(), power.data() + power.size(), exponent);
  return suffix == "Ei" || ((suffix[0] == 'e' || suffix[0] == 'E') && error == std::errc() &&
                            end == power.data() + power.size());
}

// Returns the first invalid quantity below a path in a Pod, in the form "path is "value"".
std::optional<std::string> WrongQuantity(const json& quantities, const std::string& path) {
  if (!quantities.is_object()) return std::nullopt;
  for (const auto& [name, value] : quantities.items()) {
    if (value.is_number() || (value.is_string() && IsQuantity(value.get<std::string>()))) continue;
    return path + "." + name + " is " + DumpJson(value);
  }
  return std::nullopt;
}

std::optional<std::string> WrongQuantityOf(const json& pod) {
  for (const char* list : {"containers", "initContainers"}) {
    const json& containers = kube::GetArray(pod, {"spec", list});
    for (std::size_t i = 0; i < containers.size(); ++i) {
      for (const char* kind : {"limits", "requests"}) {
        const json* quantities = kube::Find(containers[i], {"resources", kind});
        if (quantities == nullptr) continue;
        auto wrong = WrongQuantity(*quantities, std::string("spec.") + list + "[" +
                                                    std::to_string(i) + "].resources." + kind);
        if (wrong) return wrong;
      }
    }
  }
  const json& volumes = kube::GetArray(pod, {"spec", "volumes"});
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    const json* size = kube::Find(volumes[i], {"emptyDir", "sizeLimit"});
    if (size == nullptr) continue;
    auto wrong = WrongQuantity(json{{"sizeLimit", *size}},
                               "spec.volumes[" + std::to_string(i) + "].emptyDir");
    if (wrong) return wrong;
  }
  return std::nullopt;
}

// Finds the field of the job's spec from which a Pod's field comes.
class Origin {
 public:
  Origin(const json& pod, const api::TrainingJobSpec& spec, const std::string& root)
      : pod_(pod),
        root_(root),
        fields_(spec.typed_fields),
        launcher_(kube::GetString(pod, {"metadata", "labels", api::kLabelRole}) ==
                  api::kRoleLauncher),
        template_(ParseJson(launcher_ ? spec.launcher_template_json : spec.worker.template_json)) {}

  std::string Of(const std::string& path) const {
    return root_ + InSpec(path).substr(sizeof "spec" - 1);
  }

 private:
  std::string InSpec(const std::string& path) const {
    const auto volume = Indexed(path, "spec.volumes[");
    if (volume) {
      const std::string name = kube::GetString(volume->object, {"name"});
      if (name == kCheckpointVolume) return "spec.checkpoint.volume" + volume->rest;
      if (name == kDataSourceVolume) return "spec.dataCache.from" + volume->rest;
      if (name == kDataVolume) return "spec.dataCache.sizeLimit";
    }
    const auto container = Indexed(path, "spec.containers[");
    if (container && container->rest == ".image" && !HasImage(container->index)) {
      return "spec.image";
    }
    return api::PathAsWritten(
        fields_, (launcher_ ? "spec.launcher.template." : "spec.worker.template.") + path);
  }

  struct Item {
    const json& object;
    std::size_t index;
    std::string rest;  // the path after the item
  };

  // Returns the item of the Pod's list to which `path` belongs, if `path` starts with `begin`.
  std::optional<Item> Indexed(const std::string& path, std::string_view begin) const {
    if (!path.starts_with(begin)) return std::nullopt;
    std::size_t index = 0;
    const char* const end = path.data() + path.size();
    const auto [at, error] = std::from_chars(path.data() + begin.size(), end, index);
    if (error != std::errc() || at == end || *at != ']') return std::nullopt;
    const std::string list(begin.substr(5, begin.size() - 6));
    const json& items = kube::GetArray(pod_, {"spec", list});
    if (index >= items.size()) return std::nullopt;
    return Item{items[index], index, std::string(at + 1, end)};
  }

  bool HasImage(std::size_t index) const {
    if (!template_.ok()) return false;
    const json& containers = kube::GetArray(*template_, {"spec", "containers"});
    return index < containers.size() && kube::Find(containers[index], {"image"}) != nullptr;
  }

  const json& pod_;
  const std::string& root_;
  const std::vector<api::TypedField>& fields_;
  const bool launcher_;
  const Result<json> template_;
};

}  // namespace

std::string InTermsOfSpec(const std::string& message, const json& pod,
                          const api::TrainingJobSpec& spec, const std::string& root) {
  constexpr std::string_view kGoField = "Go struct field ";
  constexpr std::string_view kStrict = "strict decoding error: ";
  if (const std::size_t strict = message.find(kStrict); strict != std::string::npos) {
    return InTermsOfSpec(message.substr(strict + kStrict.size()), pod, spec, root);
  }
  const Origin origin(pod, spec, root);
  std::string text;
  std::size_t at = 0;
  while (at < message.size()) {
    // Such a field looks like "Go struct field Container.spec.containers.env of type string".
    if (message.compare(at, kGoField.size(), kGoField) == 0) {
      text += "the field ";
      at = std::min(message.find('.', at), message.size() - 1) + 1;
    }
    while (at < message.size() && message[at] == '[') text += message[at++];  // start of a list
    std::size_t end = at;
    while (end < message.size() && IsPathCharacter(message[end])) ++end;
    std::string word = message.substr(at, end - at);
    std::string tail;
    while (!word.empty() && word.back() == '.') {  // ends the sentence
      word.pop_back();
      tail += '.';
    }
    const bool is_path = word.starts_with("spec.") || word.starts_with("metadata.");
    text += (is_path ? origin.Of(word) : word) + tail;
    if (end < message.size()) text += message[end];
    at = end + 1;
  }
  if (message.find("quantities must match") == std::string::npos) return text;
  const auto wrong = WrongQuantityOf(pod);
  if (!wrong) return text;
  const std::size_t name_end = wrong->find(' ');
  return origin.Of(wrong->substr(0, name_end)) + wrong->substr(name_end) +
         ", which is not a valid quantity; write for example 500m, 2 or 256Mi";
}

}  // namespace ringmaster::job
