#pragma once

// A second look, at the finished manifest: whatever a Pod is made from, these are the rights beyond
// the profile "restricted" that it may have, and only as far as its job's rules go. It knows
// neither templates nor pods.h, so a mistake there does not hide here. Pure; used by the actor
// before each create.

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
