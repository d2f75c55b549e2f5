#pragma once

// What a container of a template may say: its environment, its mounts, its ports and probes, and
// its security context (security_context_policy.h). The container that Ringmaster runs may say less
// than the others. Pure; used by template_policy.cc.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/admission/findings.h"
#include "operator/job/admission/job_rules.h"

namespace ringmaster::job {

// Any container, init containers included.
void CheckContainer(const nlohmann::json& container, const std::string& path, const JobRules& rules,
                    Findings& found);

// Beside that, the one that Ringmaster runs, whose name is `name`.
void CheckManagedContainer(const nlohmann::json& container, const std::string& path,
                           const std::string& name, Findings& found);

}  // namespace ringmaster::job
