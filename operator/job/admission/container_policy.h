#pragma once

// Checks the containers of a template: environment, mounts, ports, probes and security context
// (security_context_policy.h). The rules for Ringmaster's own container are stricter. Pure
// functions, used by template_policy.cc.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/admission/findings.h"
#include "operator/job/admission/job_rules.h"

namespace ringmaster::job {

// Checks any container, including init containers.
void CheckContainer(const nlohmann::json& container, const std::string& path, const JobRules& rules,
                    Findings& found);

// Checks the additional rules for Ringmaster's container, whose name is `name`.
void CheckManagedContainer(const nlohmann::json& container, const std::string& path,
                           const std::string& name, Findings& found);

}  // namespace ringmaster::job
