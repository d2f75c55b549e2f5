#pragma once

// Carries out one removal plan of a deleted job. The reconciler creates it for each reconcile; as
// in actor.h, every action may be repeated.

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
  // `job` is the one in the store; `judged` has the text of its run, and may be empty unless the
  // plan makes a Pod. All but `memory` outlive it.
  RemovalActor(const ActorTools& tools, const api::TrainingJob& job,
               const std::optional<JudgedJob>& judged, const JobRules& rules, RemovalMemory memory);

  // When to look again; unset once the job is released. An error is for the queue's back-off.
  Result<std::optional<std::chrono::milliseconds>> Act(const RemovalPlan& plan);
  // What to remember afterwards.
  const RemovalMemory& memory() const { return memory_; }

 private:
  Result<void> DeletePods(const RemovalPlan& plan);
  Result<void> MakePod();
  Result<void> SayWhatIsAwaited(const std::string& reason, const std::string& what);
  void Record(const PlannedEvent& event);

  const ActorTools& tools_;
  const api::TrainingJob& job_;
  const std::optional<JudgedJob>& judged_;
  const JobRules& rules_;
  RemovalMemory memory_;
};

}  // namespace ringmaster::job
