#pragma once

// Decides how to remove a deleted job together with its checkpoints (spec.checkpoint.onDelete:
// Delete), as a pure function like make_plan.h. A finalizer keeps the job until its Pods, which
// write to the folder, have terminated and a Pod with the volume has removed the folder
// (removal_pod.h). After kRemovalLimit the finalizer is removed in any case, and an event states
// which folder remains and why.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/plan.h"
#include "operator/job/model/violation.h"

namespace ringmaster::job {

// The limit for the Pods' end and the removal, counted from when this process saw the deletion.
inline constexpr std::chrono::seconds kRemovalLimit{600};

struct RemovalInput {
  const api::TrainingJob& job;  // the job with the spec of its run
  const std::vector<Violation>& violations;
  const std::vector<PodPtr>& pods;  // all Pods of the job
  const PodPtr& remover;            // the Pod that removes the checkpoints; null: none
  const RemovalMemory& memory;
  Clock::Time now;
  bool left_behind = false;  // whether the operator no longer manages jobs of its namespace
};

struct RemovalPlan {
  std::vector<PodDelete> deletes;
  bool create_pod = false;
  bool release = false;  // remove the finalizer, so that the API server deletes the job
  // If `release` is false: what the removal waits for, as a condition's reason and a sentence.
  std::string waiting_reason;
  std::string waiting_for;
  std::optional<PlannedEvent> event;
  std::optional<std::chrono::milliseconds> requeue_after;
};

// Returns the next plan of the removal. REQUIRES: the job is being deleted and has the finalizer.
RemovalPlan PlanRemoval(const RemovalInput& input);

// Returns the path of the job's folder on its volume, such as "team-a/digits/UID".
std::string OwnFolderOf(const api::TrainingJob& job);

}  // namespace ringmaster::job
