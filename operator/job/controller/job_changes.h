#pragma once

// Derives metrics from a change of a job's status: time until training started, time in a phase,
// restarts, recoveries and the end. Pure functions; job_metrics.h records the results. The operator
// that wrote a change observes it. Because the write is a compare-and-set, each change counts once,
// even if the leader changes.

#include <chrono>
#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

using FloatSeconds = std::chrono::duration<double>;

// One restart of a Pod or rank. Both values are from the fixed lists below.
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
  std::string reason;  // one of EndReasons()
};

struct JobChange {
  std::optional<FloatSeconds>
      submit_to_running;  // time from the job's creation to the first world of ranks
  std::optional<PhaseLeft> phase_left;
  std::vector<Restart> restarts;
  std::optional<api::Recovery> recovery;
  std::optional<JobEnd> end;
};

// Receives job changes and drain times; job_metrics.h implements it. Worker threads and the request
// pool's threads call it concurrently.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  virtual void OnChange(const JobChange&) {}
  virtual void OnDrained(FloatSeconds /*took*/) {}
};

// Derives the change from job.status to `after`. `phase_since`: when the previous phase began;
// unset: use PhaseSince(job).
JobChange ObserveChange(const api::TrainingJob& job, const api::TrainingJobStatus& after,
                        std::optional<Clock::WallTime> phase_since, Clock::WallTime now);

// Returns when the job's current phase began, if the status shows it (not for phase Starting).
std::optional<Clock::WallTime> PhaseSince(const api::TrainingJob& job);

// Returns when a Pending, Starting or Paused job began to wait; empty in other phases.
std::optional<Clock::WallTime> WaitingSince(const api::TrainingJob& job);

// Returns the drain times of the workers that the plan deletes: from their marks until `now`.
// `leaving_since`: when each mark was first seen, by the Pod's UID.
std::vector<FloatSeconds> DrainTimes(const Plan& plan,
                                     const std::map<std::string, Clock::Time>& leaving_since,
                                     Clock::Time now);

// The fixed values of the metrics' labels. Any other value becomes "Other", so that text from users
// or kubelets never becomes a label value.
inline constexpr char kOther[] = "Other";
inline constexpr char kRoleRank[] = "rank";
const std::vector<Restart>& Restarts();
const std::vector<std::string>& RecoveryCauses();
const std::vector<std::string>& EndReasons();
const std::vector<std::string>& Phases();
// Returns `value` if `values` contains it, otherwise kOther.
std::string Bounded(const std::string& value, const std::vector<std::string>& values);

}  // namespace ringmaster::job
