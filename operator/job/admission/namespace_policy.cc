#include "operator/job/admission/namespace_policy.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "common/json/json.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

Error Wrong(const std::string& path, const std::string& message) {
  return {ErrorKind::kInvalid, path + " " + message};
}

Result<void> ReadBool(const json& value, const std::string& path, bool& out) {
  if (!value.is_boolean()) return Wrong(path, "is neither true nor false");
  out = value.get<bool>();
  return {};
}

Result<void> ReadCount(const json& value, const std::string& path, std::optional<int>& out) {
  const auto count = IntegerIn(value, 0, 1'000'000);
  if (!count) return Wrong(path, "is no whole number between 0 and 1000000");
  out = static_cast<int>(*count);
  return {};
}

Result<void> ReadTexts(const json& value, const std::string& path, std::vector<std::string>& out) {
  if (!value.is_array()) return Wrong(path, "is not a list");
  for (const json& item : value) {
    if (!item.is_string() || item.get<std::string>().empty()) {
      return Wrong(path, "has an item that is no text");
    }
    out.push_back(item.get<std::string>());
  }
  return {};
}

Result<void> ReadItem(const std::string& key, const json& value, const std::string& path,
                      NamespaceRules& rules) {
  if (key == "hostNetwork") return ReadBool(value, path, rules.host_network);
  if (key == "privileged") return ReadBool(value, path, rules.privileged);
  if (key == "root") return ReadBool(value, path, rules.root);
  if (key == "resourceClaims") return ReadBool(value, path, rules.resource_claims);
  if (key == "serviceAccounts") return ReadTexts(value, path, rules.service_accounts);
  if (key == "capabilities") return ReadTexts(value, path, rules.capabilities);
  if (key == "deviceResources") return ReadTexts(value, path, rules.device_resources);
  if (key == "imagePrefixes") return ReadTexts(value, path, rules.image_prefixes.emplace());
  if (key == "priorityClasses") return ReadTexts(value, path, rules.priority_classes.emplace());
  if (key == "runtimeClasses") return ReadTexts(value, path, rules.runtime_classes.emplace());
  if (key == "maxWorkers") return ReadCount(value, path, rules.max_workers);
  if (key == "maxGPUs") return ReadCount(value, path, rules.max_gpus);
  return Wrong(path,
               "is unknown; known are hostNetwork, privileged, root, resourceClaims, "
               "serviceAccounts, capabilities, deviceResources, imagePrefixes, priorityClasses, "
               "runtimeClasses, maxWorkers and maxGPUs");
}

Result<NamespaceRules> ReadRules(const json& object, const std::string& path) {
  if (!object.is_object()) return Wrong(path, "is not an object");
  NamespaceRules rules;
  for (const auto& [key, value] : object.items()) {
    if (auto read = ReadItem(key, value, path + "." + key, rules); !read.ok()) return read.error();
  }
  return rules;
}

}  // namespace

std::string NamespaceRules::HowToAllow(const std::string& item) const {
  return "only the operator's namespace policy can allow it, which whoever installed the operator "
         "sets (namespacePolicy.namespaces." +
         ns + "." + item + " in the chart's values)";
}

Result<NamespacePolicy> NamespacePolicy::Parse(std::string_view text) {
  NamespacePolicy policy;
  if (text.empty()) return policy;
  const Result<json> document = ParseJson(text);
  if (!document.ok() || !document->is_object()) {
    return Error{ErrorKind::kInvalid,
                 "is not a JSON object; write for example "
                 R"({"namespaces": {"team-a": {"hostNetwork": true}}})"};
  }
  for (const auto& [key, value] : document->items()) {
    if (key == "default") {
      auto rules = ReadRules(value, "default");
      if (!rules.ok()) return rules.error();
      policy.default_ = *std::move(rules);
    } else if (key == "namespaces" && value.is_object()) {
      for (const auto& [ns, object] : value.items()) {
        auto rules = ReadRules(object, "namespaces." + ns);
        if (!rules.ok()) return rules.error();
        policy.namespaces_[ns] = *std::move(rules);
      }
    } else {
      return Wrong(key, "is not one of \"default\" and \"namespaces\" with an object as its value");
    }
  }
  return policy;
}

NamespaceRules NamespacePolicy::Of(const std::string& ns) const {
  const auto found = namespaces_.find(ns);
  NamespaceRules rules = found == namespaces_.end() ? default_ : found->second;
  rules.ns = ns;
  return rules;
}

}  // namespace ringmaster::job
