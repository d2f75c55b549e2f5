#pragma once

// Checks Pod templates. A user who may create TrainingJobs must not gain any of the operator's
// rights (ADR 9), and no accepted field may be ignored. Pure functions, used by the reconciler
// before it creates any object of a job. This file checks the Pod's own fields; volume_policy.h,
// container_policy.h and security_context_policy.h check its parts. It does not predict the
// decisions of admission plugins.

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
