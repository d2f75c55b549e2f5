#pragma once

// The rights and limits of a job beyond an ordinary Pod, from its TrainingProfile (profile.h).
// Plain values, used by template_policy.h, rights_policy.h and pod_policy.h.

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ringmaster::job {

// Allows nothing and limits nothing as it is made.
struct JobRules {
  std::string ns{};                 // the job's; for messages
  std::string profile{};            // whose rules these are
  bool sets_fields = false;         // its workload is not empty; for messages
  std::string problem{};            // why there are no rules, and so no Pods; empty: there are
  std::vector<std::string> open{};  // profiles that the job may name; for messages

  // spec.allows
  bool host_network = false;
  bool privileged = false;
  bool root = false;
  bool resource_claims = false;
  std::vector<std::string> service_accounts{};
  std::vector<std::string> capabilities{};  // without "CAP_"
  std::vector<std::string> devices{};       // extended resources beside GPUs (gpu_resources.h)
  std::vector<std::string> schedulers{};
  std::vector<std::string> host_paths{};  // read-only, these and what is below them

  // Whether the operator can bring its programs into Pods (manifests/injection.h).
  bool has_tools = true;

  // spec.limits; unset: any image, any class, any number
  std::optional<std::vector<std::string>> image_prefixes{};
  std::optional<std::vector<std::string>> priority_classes{};  // never Kubernetes' own, system-*
  std::optional<std::vector<std::string>> runtime_classes{};
  std::optional<int> max_workers{};
  std::optional<int> max_gpus{};
  std::map<std::string, int> max_devices{};  // by the name of the extended resource

  // Whether anything beyond an ordinary Pod is allowed.
  bool Grants() const;

  // Adopts the limits of `other` that are not set here.
  void LimitAs(const JobRules& other);

  // The end of a refusal: who can allow `item` (a path below a profile's spec).
  std::string HowToAllow(const std::string& item) const;

  friend bool operator==(const JobRules&, const JobRules&) = default;
};

// " (a, b)"; empty for an empty list.
std::string Listed(const std::vector<std::string>& names);

// Whether a host's path is `prefix` or below it; one with ".." in it never is.
bool IsBelowHostPath(const std::string& path, const std::string& prefix);

}  // namespace ringmaster::job
