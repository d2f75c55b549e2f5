#pragma once

// Ensures that Pods are created only from validated jobs: pods.h accepts only a JudgedJob, and only
// Judge() creates one, if all policies (template_policy.h, rights_policy.h) allow the spec. A
// JudgedJob refers to the validated job, so Pods are created from the same spec. Pure functions.

#include <optional>
#include <vector>

#include "operator/api/types.h"
#include "operator/job/admission/job_rules.h"
#include "operator/job/model/violation.h"

namespace ringmaster::job {

struct Judgement;

// A validated job. REQUIRES: the job outlives the JudgedJob and does not change.
class JudgedJob {
 public:
  const api::TrainingJob& job() const { return *job_; }

 private:
  friend Judgement Judge(const api::TrainingJob& job, const JobRules& rules);
  explicit JudgedJob(const api::TrainingJob& job) : job_(&job) {}

  const api::TrainingJob* job_;
};

struct Judgement {
  std::optional<JudgedJob> allowed;   // set if there are no violations and the spec is complete
  std::vector<Violation> violations;  // first templates and volumes, then resource requests
};

Judgement Judge(const api::TrainingJob& job, const JobRules& rules);
Judgement Judge(api::TrainingJob&& job, const JobRules& rules) = delete;

}  // namespace ringmaster::job
