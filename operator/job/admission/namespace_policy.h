#pragma once

// What a namespace's jobs may ask for beyond an ordinary Pod (docs/decisions.md, D47). Written by
// whoever installs the operator (its flag --namespace-policy, the chart's value namespacePolicy),
// never by an object of the cluster that a job's author could change. Values and a parser; the
// rules are applied by template_policy.h and request_policy.h.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::job {

// Allows nothing as it is made.
struct NamespaceRules {
  std::string ns{};  // whose they are; for messages
  bool host_network = false;
  bool privileged = false;
  bool root = false;
  bool resource_claims = false;
  std::vector<std::string> service_accounts;
  std::vector<std::string> capabilities;      // without "CAP_"
  std::vector<std::string> device_resources;  // extended resources beside GPUs (gpu_resources.h)
  // Unset: any image, any class, any number.
  std::optional<std::vector<std::string>> image_prefixes;
  std::optional<std::vector<std::string>> priority_classes;  // but never Kubernetes' own, system-*
  std::optional<std::vector<std::string>> runtime_classes;
  std::optional<int> max_workers;
  std::optional<int> max_gpus;

  // The end of a refusal: who can allow `item` (a key of the policy), and where.
  std::string HowToAllow(const std::string& item) const;
};

class NamespacePolicy {
 public:
  // Nothing, for every namespace.
  NamespacePolicy() = default;

  // JSON: {"default": RULES, "namespaces": {"team-a": RULES}}. A namespace that is named has its
  // own rules alone, all others the default ones. kInvalid names the key that is wrong; one that is
  // unknown is wrong, too.
  static Result<NamespacePolicy> Parse(std::string_view text);

  NamespaceRules Of(const std::string& ns) const;

 private:
  NamespaceRules default_;
  std::map<std::string, NamespaceRules> namespaces_;
};

}  // namespace ringmaster::job
