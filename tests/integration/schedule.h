#pragma once

// A random schedule: actions of users and the cluster on a few jobs, and faults between the
// operator and the API server. A seed always produces the same schedule, so that a schedule that
// failed can be repeated. Schedules are plain values; schedule_test.cc plays them.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ringmaster::testing {

enum class StepKind {
  kCreate,        // with `number` workers
  kScale,         // to `number` workers
  kDeletePod,     // deletes the worker at position `number` in the list of the job's workers
  kLoseLauncher,  // the launcher's container ends without a verdict
  kFinish,        // the job succeeds; `number` 0: its workers do not exit
  kSuspend,
  kResume,
  kDelete,  // deletes the job and all that it owns
  kKillOperator,
  kCutWatches,
  kExpireWatches,
  kRepeatEvents,  // sends each watch event twice, until the end of the schedule
  kSlowEvents,    // delays watch events by `number` ms, until the end of the schedule
  kBurst,         // the next `number` requests get `fault`
  kPauseEtcd,     // stops etcd for `number` ms
  kRestartApiServer,
};

enum class RequestFault {
  kConflict,  // only for writes
  kThrottled,
  kServerError,
  kUnavailable,
  kCutBefore,
  kCutAfter,
  kSlow,
};

struct ScheduleStep {
  StepKind kind = StepKind::kCreate;
  int job = 0;
  int number = 0;
  RequestFault fault = RequestFault::kConflict;
  bool settle = false;  // wait until all jobs are settled before the next step
};

// The state that a job must reach.
struct JobGoal {
  bool exists = false;
  bool finished = false;
  bool suspended = false;
  int replicas = 0;
  int launchers_lost = 0;  // number of lost launchers since the job was created
};

inline constexpr int kScheduleJobs = 2;
using Goals = std::array<JobGoal, kScheduleJobs>;

// Applies a step's effect to the goals.
void Apply(const ScheduleStep& step, Goals& goals);

struct Schedule {
  uint64_t seed = 0;
  std::vector<ScheduleStep> steps;
};

// One schedule in twenty has an outage: etcd is paused, or the API server is killed and restarted.
Schedule DrawSchedule(uint64_t seed);

// Returns the schedule without the steps that end the operator, for tests of its memory use.
Schedule WithoutKills(Schedule schedule);

// Returns one line per step.
std::string TextOf(const Schedule& schedule);

}  // namespace ringmaster::testing
