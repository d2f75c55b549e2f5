#pragma once

// What to do about a job, as a pure function of what is asked for, what exists, what its launcher
// says and the time. The reconciler gathers the inputs and carries the plan out; nothing here talks
// to anyone.
//
//   Plan plan = MakePlan({.job = *job, .violations = ..., .observed = Observe(...), ...});
//
// Policies it is made of: verdict_policy.h (has the job ended?), replacement_policy.h (how soon
// again?), status_policy.h (what to tell people).

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "operator/api/types.h"
#include "operator/job/observe.h"
#include "operator/job/template_policy.h"

namespace ringmaster::job {

// Why the last creates failed, until when not to try again.
struct Refusal {
  std::string reason;   // a condition reason of api/names.h
  std::string message;  // the API server's words
  bool user_error =
      false;         // the objects we make from the spec are invalid: trying again cannot help
  int failures = 0;  // in a row
  Clock::Time retry_at{};
};

// What the process remembers of a job between reconciles. Losing it (a restart) costs an early
// retry, no more.
struct JobMemory {
  std::optional<Refusal> refusal;
  int64_t unused_term = 0;  // a term that was raised and whose Pod was certainly not created
  std::set<std::string> taken_names;
  std::optional<Clock::Time> progress_written;
  std::optional<Clock::Time> ended_since;  // since when we know that the job is over
};

// The newest answer of the job's launcher.
struct LauncherView {
  std::string pod_uid;  // of the launcher Pod that was asked
  std::optional<control::LauncherStatus> status;
  std::optional<Clock::Time> silent_since;  // unset: it answered the last question
  double steps_per_second = 0;              // 0: unknown
};

struct PlanInput {
  const api::TrainingJob& job;
  const std::vector<Violation>& violations;
  const Observed& observed;
  const std::optional<LauncherView>& launcher;
  const JobMemory& memory;
  Clock::Time now;
  Clock::WallTime wall_now;
};

struct PodDelete {
  std::string name;
  std::string uid;
};

struct PlannedEvent {
  bool warning = false;
  std::string reason;
  std::string action;
  std::string note;
};

// The order of the fields is the order in which the reconciler acts.
struct Plan {
  std::optional<int64_t>
      raise_term;  // write status.launcherTerm (compare-and-set) before its Pod is created
  bool create_services = false;             // at least one is missing
  std::optional<int64_t> point_service_at;  // the launcher's Service selects another term
  std::optional<int64_t> create_launcher;
  std::vector<int> create_workers;
  api::TrainingJobStatus status;
  bool write_status = false;
  std::vector<PodDelete> deletes;  // after the status, which names what they are about
  std::vector<PlannedEvent> events;
  std::optional<control::Order>
      order;  // for the launcher; unset when there is none to ask. The stamp is the reconciler's
  std::optional<std::chrono::milliseconds> requeue_after;

  bool CreatesPods() const { return create_launcher.has_value() || !create_workers.empty(); }
  void RequeueWithin(std::chrono::milliseconds delay) {
    if (!requeue_after || delay < *requeue_after) requeue_after = delay;
  }
};

// REQUIRES: the job is not being deleted.
Plan MakePlan(const PlanInput& input);

}  // namespace ringmaster::job
