#pragma once

// Derives metrics from a change of a job's status: time until training started, time in a phase,
// restarts, recoveries and the end. Pure functions; job_metrics.h records the results. The operator
// that wrote a change observes it. Because the write is a compare-and-set, each change counts once,
// even if leadership moves.

#include <chrono>
#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

using FloatSeconds = std::chrono::duration<double>;

// What was restarted. Both values are from the fixed lists below.
struct Restart {
  std::string role;
  std::string cause;

  friend auto operator<=>(const Restart&, const Restart&) = default;
};

struct PhaseLeft {
  std::string phase;  // status.state
  FloatSeconds lasted{0};
};

struct JobEnd {
  bool succeeded = false;
  std::string reason;  // of EndReasons()
};

struct JobChange {
  std::optional<FloatSeconds>
      submit_to_running;  // from the object's creation to its first world of ranks
  std::optional<PhaseLeft> phase_left;
  std::vector<Restart> restarts;
  std::optional<api::Recovery> recovery;
  std::optional<JobEnd> end;
};

// Takes note of what was done; job_metrics.h implements it. Called on workers and on the request
// pool's threads, concurrently.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  virtual void OnChange(const JobChange&) {}
  virtual void OnDrained(FloatSeconds /*took*/) {}
};

// From job.status to `after`. `phase_since` is when the phase that may be left began, where the
// process knows; else the status is asked.
JobChange ObserveChange(const api::TrainingJob& job, const api::TrainingJobStatus& after,
                        std::optional<Clock::WallTime> phase_since, Clock::WallTime now);

// When the job's present phase began, as far as its status keeps that: not of Starting.
std::optional<Clock::WallTime> PhaseSince(const api::TrainingJob& job);

// Since when a job that is to train does not: it is Pending, Starting or Paused. Nothing otherwise.
std::optional<Clock::WallTime> WaitingSince(const api::TrainingJob& job);

// The drain times of the workers that the plan deletes: from their marks until now.
std::vector<FloatSeconds> DrainTimes(const Plan& plan, const JobMemory& memory, Clock::Time now);

// All values of the labels, in which whatever is not listed is "Other": nothing that a user or a
// kubelet writes becomes a label.
inline constexpr char kOther[] = "Other";
inline constexpr char kRoleRank[] = "rank";
const std::vector<Restart>& Restarts();
const std::vector<std::string>& RecoveryCauses();
const std::vector<std::string>& EndReasons();
const std::vector<std::string>& Phases();
// `value` if it is listed, else kOther.
std::string Bounded(const std::string& value, const std::vector<std::string>& values);

}  // namespace ringmaster::job
