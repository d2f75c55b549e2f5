#pragma once

// Checks a job's requests outside of its templates against its rules: host network and privileges
// (spec.network), images, priority and runtime classes, devices, and the numbers of workers and
// GPUs. Pure functions, used by judgement.h together with template_policy.h.

#include <string_view>
#include <vector>

#include "operator/api/types.h"
#include "operator/job/admission/job_rules.h"
#include "operator/job/model/violation.h"

namespace ringmaster::job {

// Violations that no profile could allow are not by_policy.
std::vector<Violation> CheckRequests(const api::TrainingJobSpec& spec, const JobRules& rules);

// Whether `image` lies under `prefix`: the same, or going on after it with a new part, or with a
// tag or digest that ends it. "example.com/team" does not cover "example.com/team-b/x",
// "example.com" not "example.com:5000/x", which is another registry, and a prefix that has a tag or
// a digest itself covers that one image. "team" is an image of Docker Hub alone, "team/" all of an
// organisation there.
bool IsUnderPrefix(std::string_view image, std::string_view prefix);

}  // namespace ringmaster::job
