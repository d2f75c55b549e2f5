#include "cli/profiles.h"

#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/spec_fields.h"
#include "cli/terminal.h"
#include "common/base/cut_text.h"
#include "operator/kube/json_access.h"

namespace ringmaster::cli {
namespace {

using nlohmann::json;

std::string Listed(const std::vector<std::string>& parts, const char* otherwise) {
  return parts.empty() ? otherwise : ListText(parts);
}

// Formats the object `allows` or `limits`, including fields of later versions.
std::vector<std::string> EntriesOf(const json* object) {
  std::vector<std::string> entries;
  if (object == nullptr || !object->is_object()) return entries;
  for (const auto& [key, value] : object->items()) {
    if (value.is_null() || value == false || (value.is_structured() && value.empty())) continue;
    entries.push_back(value == true ? key : key + " " + ValueText(value));
  }
  return entries;
}

std::vector<std::string> FieldsSet(const json& profile) {
  std::vector<std::string> paths;
  const json* workload = kube::Find(profile, {"spec", "workload"});
  if (workload == nullptr) return paths;
  for (const auto& [path, value] : FieldsOf(*workload)) paths.push_back(path);
  return paths;
}

std::vector<std::string> Yielded(const json& profile) {
  std::vector<std::string> paths;
  for (const json& path : kube::GetArray(profile, {"spec", "overridable"})) {
    if (path.is_string()) paths.push_back(path.get<std::string>());
  }
  return paths;
}

}  // namespace

Result<json> ReadLocalProfiles(const Kubectl& kubectl) {
  Result<json> list = kubectl.Get({kLocalProfiles});
  if (list.ok() || list.error().reason != kNoSuchType) return list;
  Error error = list.error();
  error.message =
      "this cluster has no LocalTrainingProfiles, because Ringmaster is not installed; ask the "
      "platform team";
  return error;
}

std::string ProfilesText(const json& list) {
  const json& profiles = kube::GetArray(list, {"items"});
  if (profiles.empty()) {
    return "No TrainingProfile is available in this namespace: jobs run in ordinary Pods, without "
           "rights beyond Pod Security \"restricted\". If you need a profile, ask the platform "
           "team.\n";
  }
  std::string text;
  for (const json& profile : profiles) {
    const std::string description = kube::GetString(profile, {"spec", "description"});
    std::string head = kube::GetString(profile, {"metadata", "name"});
    if (kube::GetBool(profile, {"spec", "default"})) {
      head += " (default for jobs without spec.profile)";
    }
    if (!description.empty()) head += ": " + description;
    text += Printable(head) + "\n";
    std::vector<std::vector<std::string>> rows{
        {"allows", Listed(EntriesOf(kube::Find(profile, {"spec", "allows"})),
                          "nothing beyond an ordinary Pod")},
        {"limits", Listed(EntriesOf(kube::Find(profile, {"spec", "limits"})), "nothing")},
        {"sets", Listed(FieldsSet(profile), "nothing")}};
    if (const auto yielded = Yielded(profile); !yielded.empty()) {
      rows.push_back({"yields", "to the job's value of " + Listed(yielded, "")});
    }
    text += Columns(rows, "  ");
  }
  return text;
}

json ProfilesJson(const json& list) {
  json out = json::array();
  for (const json& profile : kube::GetArray(list, {"items"})) {
    const json* spec = kube::Find(profile, {"spec"});
    out.push_back({{"name", kube::GetString(profile, {"metadata", "name"})},
                   {"spec", spec == nullptr ? json::object() : *spec}});
  }
  return out;
}

}  // namespace ringmaster::cli
