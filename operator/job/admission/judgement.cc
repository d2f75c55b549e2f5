#include "operator/job/admission/judgement.h"

#include <algorithm>
#include <string>
#include <utility>

#include "operator/api/typed_fields.h"
#include "operator/job/admission/rights_policy.h"
#include "operator/job/admission/template_policy.h"

namespace ringmaster::job {

Judgement Judge(const api::TrainingJob& job, const JobRules& rules) {
  Judgement judgement;
  if (!rules.problem.empty()) {
    judgement.violations.push_back({.path = "spec.profile",
                                    .message = "does not select a usable profile: " + rules.problem,
                                    .by_policy = true});
    return judgement;
  }
  // Skip duplicates: if both templates get a value from the same field, its violation occurs twice.
  const auto add = [&](Violation violation) {
    violation.path = api::PathAsWritten(job.spec.typed_fields, violation.path);
    const std::string text = violation.Text();
    const bool known = std::any_of(judgement.violations.begin(), judgement.violations.end(),
                                   [&](const Violation& other) { return other.Text() == text; });
    if (!known) judgement.violations.push_back(std::move(violation));
  };
  for (Violation& violation : CheckSpec(job.spec, rules)) add(std::move(violation));
  for (Violation& violation : CheckRequests(job.spec, rules)) add(std::move(violation));
  const bool whole = job.spec.texts == api::TrainingJobSpec::Texts::kAll;
  if (whole && job.spec.image.empty()) {
    add({.path = "spec.image",
         .message = "is not set, and this installation has no default image; name an image that "
                    "contains the job's program, or ask the platform team to set the default (the "
                    "operator's flag --worker-image, the chart's workerImage)"});
  }
  if (whole && judgement.violations.empty()) judgement.allowed = JudgedJob(job);
  return judgement;
}

}  // namespace ringmaster::job
