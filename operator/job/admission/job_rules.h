#pragma once

// The rights and limits of a job, from its TrainingProfile (profile.h). Plain values, used by
// template_policy.h, rights_policy.h and pod_policy.h.

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ringmaster::job {

// A default JobRules grants no additional rights and sets no limits.
struct JobRules {
  std::string ns{};                 // the job's namespace; for messages
  std::string profile{};            // name of the profile
  bool sets_fields = false;         // whether the profile's workload is not empty; for messages
  std::string problem{};            // why no Pods may be created; empty: these rules apply
  std::vector<std::string> open{};  // profiles that the job may name; for messages

  // spec.allows
  bool host_network = false;
  bool privileged = false;
  bool root = false;
  bool resource_claims = false;
  std::vector<std::string> service_accounts{};
  std::vector<std::string> capabilities{};  // without "CAP_"
  std::vector<std::string> devices{};       // extended resources besides GPUs (gpu_resources.h)
  std::vector<std::string> schedulers{};
  std::vector<std::string> host_paths{};  // paths allowed read-only, with all paths below them

  // Whether the operator can add its programs to Pods (manifests/injection.h).
  bool has_tools = true;

  // spec.limits; unset: any image, any class, any number
  std::optional<std::vector<std::string>> image_prefixes{};
  std::optional<std::vector<std::string>> priority_classes{};  // never system-* classes
  std::optional<std::vector<std::string>> runtime_classes{};
  std::optional<int> max_workers{};
  std::optional<int> max_gpus{};
  std::map<std::string, int> max_devices{};  // keyed by extended resource

  // Returns true if the rules grant any right beyond those of an ordinary Pod.
  bool Grants() const;

  // Copies the limits of `other` that are not set in these rules.
  void LimitAs(const JobRules& other);

  // Returns the end of a rejection message: who can allow `item`, a path below a profile's spec.
  std::string HowToAllow(const std::string& item) const;

  friend bool operator==(const JobRules&, const JobRules&) = default;
};

// Formats names as " (a, b)". Returns an empty string for an empty list.
std::string Listed(const std::vector<std::string>& names);

// Returns true if a host path is `prefix` or below it. Always false for a path with "..".
bool IsBelowHostPath(const std::string& path, const std::string& prefix);

}  // namespace ringmaster::job
