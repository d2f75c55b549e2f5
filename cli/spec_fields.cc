#include "cli/spec_fields.h"

#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

#include "common/json/json.h"
#include "operator/api/typed_fields.h"
#include "operator/kube/json_access.h"

namespace ringmaster::cli {
namespace {

using nlohmann::json;

constexpr const char* kTyped[] = {
    "worker.env",          "worker.envFrom",     "worker.volumeMounts",
    "worker.workingDir",   "worker.resources",   "worker.volumes",
    "worker.nodeSelector", "worker.tolerations", "worker.resourceClaims",
    "imagePullSecrets",    "priorityClassName"};

// Returns the path of the API field for a path within a template; any other path unchanged.
std::string AsTyped(const std::string& path) {
  for (const char* typed : kTyped) {
    for (const std::string& in_template : api::PathsInTemplates(typed)) {
      if (path == in_template || api::IsBelow(path, in_template)) {
        return typed + path.substr(in_template.size());
      }
    }
  }
  return path;
}

std::string Step(const std::string& path, const std::string& key) {
  if (key.find_first_of("./") != std::string::npos) return path + "[" + key + "]";
  return path.empty() ? key : path + "." + key;
}

// Returns the mountPath or the name that identifies a list item; empty if the item has neither.
std::string NameOf(const json& item) {
  const std::string mount = kube::GetString(item, {"mountPath"});
  return mount.empty() ? kube::GetString(item, {"name"}) : mount;
}

void Collect(const json& value, const std::string& path, std::map<std::string, json>& fields) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, inner] : value.items()) Collect(inner, Step(path, key), fields);
  } else if (value.is_array() && !value.empty() &&
             std::all_of(value.begin(), value.end(),
                         [](const json& item) { return !NameOf(item).empty(); })) {
    for (const json& item : value) Collect(item, path + "[" + NameOf(item) + "]", fields);
  } else if (!value.is_null() && !(value.is_structured() && value.empty()) && !path.empty()) {
    fields[AsTyped(path)] = value;
  }
}

}  // namespace

std::map<std::string, json> FieldsOf(const json& spec) {
  std::map<std::string, json> fields;
  Collect(spec, "", fields);
  // Drop the fields that identify list items, because the paths contain their values.
  std::erase_if(fields, [](const auto& field) {
    return field.first.ends_with("].name") || field.first.ends_with("].mountPath");
  });
  return fields;
}

std::string ValueText(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array() || std::any_of(value.begin(), value.end(),
                                       [](const json& item) { return item.is_structured(); })) {
    return DumpJson(value);
  }
  std::string text;
  for (const json& item : value) text += (text.empty() ? "" : ", ") + ValueText(item);
  return text;
}

}  // namespace ringmaster::cli
