#pragma once

// Checks Pod templates. A user who may create TrainingJobs must not gain any of the operator's
// rights (ADR 9), and no accepted field may be ignored. Pure functions, used by the reconciler
// before it creates any object of a job. This file checks the Pod's own fields; volume_policy.h,
// container_policy.h and security_context_policy.h check its parts. The check does not predict the
// decisions of admission plugins.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/job/admission/job_rules.h"
#include "operator/job/model/violation.h"

namespace ringmaster::job {

// The annotation of a Pod with a container's AppArmor profile, without the container's name.
inline constexpr char kAppArmorOfContainer[] = "container.apparmor.security.beta.kubernetes.io/";

// Returns all violations in a Pod template. `path` is the template's path, `managed` is the name of
// Ringmaster's container, and `rules` are the job's rules, which may allow additional rights.
std::vector<Violation> CheckTemplate(const nlohmann::json& pod_template, const std::string& path,
                                     const std::string& managed, const JobRules& rules);

// Checks both templates of a job, and the volumes of its checkpoints and data.
std::vector<Violation> CheckSpec(const api::TrainingJobSpec& spec, const JobRules& rules);

}  // namespace ringmaster::job
