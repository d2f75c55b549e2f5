#pragma once

// Checks the complete Pod manifest once more: beyond Pod Security "restricted", a Pod may have
// only the rights that its job's rules allow. The check does not depend on templates or pods.h, so
// it also catches mistakes in them. Pure functions, which the actor calls before it creates each
// Pod.

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/admission/job_rules.h"
#include "operator/job/model/violation.h"

namespace ringmaster::job {

// The name of the volume with Ringmaster's programs (manifests/injection.h), and of the init
// container that copies the programs into it. Only this volume may be an image.
inline constexpr char kToolsName[] = "ringmaster-tools";

std::vector<Violation> CheckPod(const nlohmann::json& pod, const JobRules& rules);

}  // namespace ringmaster::job
