#pragma once

// The result of carrying out one plan. The actor returns it; the reconciler, which alone writes the
// job's memory, applies it. Pure functions on plain values.

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

// The result of checking the job's NetworkPolicies.
struct IsolationSeen {
  bool isolated = false;
  std::string why_not;  // empty: it is
  Clock::Time at{};
};

struct ActResult {
  // Errors and notes of this plan.
  std::optional<Refusal> refusal;
  std::optional<Error> error;  // for the queue's back-off
  bool again = false;          // the stores are behind, or another client changed an object first
  bool job_gone = false;
  std::set<std::string> taken_names;  // of Pods: an object that is going has the name
  bool pin_changed = false;           // another object has the pin's name

  // What was done; unset if it was not.
  std::optional<RunPin> pin;  // created, or already there
  bool unpinned = false;
  std::optional<int64_t> unused_term;  // of the launcher Pod that was certainly not created; or 0
  std::optional<IsolationSeen> isolation;
  std::optional<std::vector<std::string>> admitted;
  std::optional<Clock::Time> status_written;
  std::optional<Clock::WallTime> phase_since;  // when a status with another state was written
};

// Applies the result of `plan` for `job` to `memory`. Returns when to look at the job again: when
// the plan says so if everything was done; earlier or later if something was refused or another
// client changed an object first. An error makes the queue back off.
Result<std::optional<std::chrono::milliseconds>> TakeIn(const ActResult& result,
                                                        const api::TrainingJob& job,
                                                        const Plan& plan, Clock::Time now,
                                                        JobMemory& memory);

}  // namespace ringmaster::job
