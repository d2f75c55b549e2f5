#pragma once

// Checks the job's fields outside of its templates against its rules: host network and privileges
// (spec.network), images, priority and runtime classes, devices, and the numbers of workers and
// GPUs. Pure functions, used by judgement.h together with template_policy.h.

#include <string_view>
#include <vector>

#include "operator/api/types.h"
#include "operator/job/admission/job_rules.h"
#include "operator/job/model/violation.h"

namespace ringmaster::job {

// Returns the violations. Those that no profile can allow have by_policy = false.
std::vector<Violation> CheckRequests(const api::TrainingJobSpec& spec, const JobRules& rules);

// Returns true if `image` equals `prefix`, or continues it with "/..." or with a final tag or
// digest. "example.com/team" does not cover "example.com/team-b/x", and "example.com" does not
// cover "example.com:5000/x", which is another registry. A prefix with a tag or digest covers only
// that image. "team" covers one image of Docker Hub, and "team/" covers all images of that
// organisation.
bool IsUnderPrefix(std::string_view image, std::string_view prefix);

}  // namespace ringmaster::job
