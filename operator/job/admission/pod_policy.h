#pragma once

// A second check, of the finished Pod manifest: a Pod may have only those rights beyond Pod
// Security "restricted" that its job's rules allow. The check does not depend on templates or
// pods.h, so it also catches mistakes there. Pure functions, used by the actor before each
// create.

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/admission/job_rules.h"
#include "operator/job/model/violation.h"

namespace ringmaster::job {

// The volume with Ringmaster's programs (manifests/injection.h), the only one that may be an image;
// and the init container that fills it.
inline constexpr char kToolsName[] = "ringmaster-tools";

std::vector<Violation> CheckPod(const nlohmann::json& pod, const JobRules& rules);

}  // namespace ringmaster::job
