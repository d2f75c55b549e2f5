#pragma once

// Checks the securityContext of a template's Pod and containers. It rejects rights beyond Pod
// Security "restricted", except for root, privileges and capabilities that the job's rules allow.
// Pure functions, used by template_policy.cc and container_policy.cc.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/admission/findings.h"
#include "operator/job/admission/job_rules.h"

namespace ringmaster::job {

// `path` is the path of `context`, which is an object.
void CheckPodSecurityContext(const nlohmann::json& context, const std::string& path,
                             const JobRules& rules, Findings& found);
void CheckContainerSecurityContext(const nlohmann::json& context, const std::string& path,
                                   const JobRules& rules, Findings& found);

}  // namespace ringmaster::job
