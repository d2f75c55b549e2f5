#include "operator/job/admission/judgement.h"

#include <utility>

#include "operator/job/admission/request_policy.h"
#include "operator/job/admission/template_policy.h"

namespace ringmaster::job {

Judgement Judge(const api::TrainingJob& job, const NamespaceRules& rules) {
  Judgement judgement{.allowed = std::nullopt, .violations = CheckSpec(job.spec, rules)};
  for (Violation& violation : CheckRequests(job.spec, rules)) {
    judgement.violations.push_back(std::move(violation));
  }
  const bool whole = job.spec.texts == api::TrainingJobSpec::Texts::kAll;
  if (whole && judgement.violations.empty()) judgement.allowed = JudgedJob(job);
  return judgement;
}

}  // namespace ringmaster::job
