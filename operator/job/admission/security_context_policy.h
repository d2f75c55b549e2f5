#pragma once

// What the securityContext of a template's Pod or of one of its containers may say: no rights
// beyond the profile "restricted" but root, privileges and capabilities that the job's rules
// allow. Pure; used by template_policy.cc and container_policy.cc.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/admission/findings.h"
#include "operator/job/admission/job_rules.h"

namespace ringmaster::job {

// `path` is that of `context`, an object.
void CheckPodSecurityContext(const nlohmann::json& context, const std::string& path,
                             const JobRules& rules, Findings& found);
void CheckContainerSecurityContext(const nlohmann::json& context, const std::string& path,
                                   const JobRules& rules, Findings& found);

}  // namespace ringmaster::job
