#pragma once

// The result of executing one plan. The actor returns it, and the reconciler applies it to the
// job's memory, which only the reconciler writes. Pure functions on plain values.

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

struct ActResult {
  // Errors and notes of this plan.
  std::optional<Refusal> refusal;
  std::optional<Error> error;         // transient error, for which the queue backs off
  std::optional<Error> create_error;  // the first such error of a create that MayLast() (refusal.h)
  bool again = false;  // retry: stores are behind, or another client wrote an object first
  bool job_gone = false;
  bool created = false;               // whether an object was created
  std::set<std::string> taken_names;  // Pod names that other objects still have
  bool pin_changed = false;           // whether another object has the pin's name

  // Results of the executed actions; unset if an action was not executed.
  std::optional<RunPin> pin;  // the pin that was created or that already existed
  bool unpinned = false;
  std::optional<int64_t> unused_term;  // term whose launcher Pod was certainly not created; 0: none
  std::optional<IsolationCheck> isolation;
  std::optional<std::vector<std::string>> admitted;
  std::optional<Clock::Time> status_written;
  std::optional<Clock::WallTime> phase_since;  // when a status with another state was written
};

// Applies the result of `plan` for `job` to `memory`. Returns when to reconcile the job again: as
// planned if all actions succeeded; earlier or later after a refusal, or if another client changed
// an object first. An error makes the queue back off.
Result<std::optional<std::chrono::milliseconds>> ApplyResult(const ActResult& result,
                                                             const api::TrainingJob& job,
                                                             const Plan& plan, Clock::Time now,
                                                             JobMemory& memory);

}  // namespace ringmaster::job
