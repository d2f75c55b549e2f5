#pragma once

// What a job asks for outside its templates' security, held to its namespace's rules: the host's
// network and privileges (spec.network), images, classes of priority and runtime, devices, numbers
// of workers and GPUs. Pure; used by judgement.h beside template_policy.h.

#include <string_view>
#include <vector>

#include "operator/api/types.h"
#include "operator/job/admission/namespace_policy.h"
#include "operator/job/model/violation.h"

namespace ringmaster::job {

// All of them are violations of the policy (Violation::by_policy).
std::vector<Violation> CheckRequests(const api::TrainingJobSpec& spec, const NamespaceRules& rules);

// Whether `image` lies under `prefix`: the same, or going on after it with a new part, or with a
// tag or digest that ends it. "example.com/team" does not cover "example.com/team-b/x",
// "example.com" not "example.com:5000/x", which is another registry, and a prefix that has a tag or
// a digest itself covers that one image.
bool IsUnderPrefix(std::string_view image, std::string_view prefix);

}  // namespace ringmaster::job
