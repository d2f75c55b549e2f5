#pragma once

// Executes one removal plan of a deleted job. The reconciler creates an actor for each reconcile.
// As in actor.h, all actions are idempotent.

#include <chrono>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "operator/job/admission/judgement.h"
#include "operator/job/controller/job_requests.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/planner/removal_plan.h"

namespace ringmaster::job {

class RemovalActor {
 public:
  // `job`: the job in the store. `judged`: the job with the spec of its run; may be empty unless
  // the plan creates a Pod. All arguments except `memory` must outlive this object.
  RemovalActor(const ActorTools& tools, const api::TrainingJob& job,
               const std::optional<JudgedJob>& judged, const JobRules& rules, RemovalMemory memory);

  // Returns when to reconcile again; unset once the job is released. Errors cause a back-off.
  Result<std::optional<std::chrono::milliseconds>> Act(const RemovalPlan& plan);
  // The updated memory, to be stored after Act().
  const RemovalMemory& memory() const { return memory_; }

 private:
  Result<void> DeletePods(const RemovalPlan& plan);
  Result<void> MakePod();
  Result<void> WriteWaitingCondition(const std::string& reason, const std::string& what);
  void Record(const PlannedEvent& event);

  const ActorTools& tools_;
  const api::TrainingJob& job_;
  const std::optional<JudgedJob>& judged_;
  const JobRules& rules_;
  RemovalMemory memory_;
};

}  // namespace ringmaster::job
