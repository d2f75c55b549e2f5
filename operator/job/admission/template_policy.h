#pragma once

// Which Pod templates the operator accepts: who may create TrainingJobs must gain nothing through
// the operator's rights that they could not do themselves (ADR 9), and nothing is
// accepted and then ignored. Pure; used by the reconciler before anything of a job is made. It
// judges what a template says, not what admission would say later. What the Pod says is judged
// here, its parts by volume_policy.h, container_policy.h and security_context_policy.h.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/job/admission/job_rules.h"
#include "operator/job/model/violation.h"

namespace ringmaster::job {

// Every violation in one Pod template. `path` is that of the template, `managed` the container that
// Ringmaster runs; `rules` are the namespace's, which may allow some of it.
std::vector<Violation> CheckTemplate(const nlohmann::json& pod_template, const std::string& path,
                                     const std::string& managed, const JobRules& rules);

// Both templates of a job, and the volumes of its checkpoints and of its data.
std::vector<Violation> CheckSpec(const api::TrainingJobSpec& spec, const JobRules& rules);

}  // namespace ringmaster::job
