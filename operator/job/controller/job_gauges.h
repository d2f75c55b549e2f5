#pragma once

// Counts all jobs at one moment: jobs by phase, GPUs requested and GPUs in training, the longest
// wait, and the longest time without a step. Only StallWatch has state, the steps of jobs;
// job_metrics.h exports the results.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/controller/job_changes.h"

namespace ringmaster::job {

using Jobs = std::vector<std::shared_ptr<const api::TrainingJob>>;

// Stores when the step of each running job last changed, by UID. Ignores jobs that report no steps.
// The operator writes steps to the status at least every ten seconds.
class StallWatch {
 public:
  // Records the current steps, and forgets jobs that are no longer running.
  void See(const Jobs& jobs, Clock::Time now);
  // Returns how long the job has been at its current step; zero for a job that is not watched.
  FloatSeconds StillFor(const std::string& job_uid, Clock::Time now) const;
  bool Watches(const std::string& job_uid) const { return seen_.contains(job_uid); }

 private:
  struct Seen {
    int64_t step = 0;
    int64_t epoch = 0;
    Clock::Time since{};
  };
  std::map<std::string, Seen> seen_;
};

struct NamespaceGauges {
  // The GPUs of all workers of jobs that have not ended and are not suspended.
  int64_t gpus_requested = 0;
  int gpus_productive = 0;                           // GPUs of workers in a training world
  std::map<std::string, FloatSeconds> longest_wait;  // by phase: Pending, Starting, Paused
  std::optional<FloatSeconds> longest_stall;         // longest time of a running job without a step
};

struct JobGauges {
  std::map<std::string, int> by_phase;  // all of Phases()
  std::map<std::string, NamespaceGauges> by_namespace;
};

// Counts `jobs`, which this operator manages. A job without a status counts as Pending.
JobGauges CountJobs(const Jobs& jobs, const StallWatch& stalls, Clock::Time now,
                    Clock::WallTime wall_now);

}  // namespace ringmaster::job
