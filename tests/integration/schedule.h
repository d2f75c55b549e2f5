#pragma once

// A random schedule: what users and the cluster do with a few jobs, and what goes wrong between the
// operator and the API server meanwhile. A seed always draws the same one, so that a schedule that
// fails is repeated by its number. Values only; schedule_test.cc plays them.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ringmaster::testing {

enum class StepKind {
  kCreate,        // `number` workers
  kScale,         // to `number` workers
  kDeletePod,     // the worker at place `number` among the job's
  kLoseLauncher,  // its container ends without a word
  kFinish,        // the job succeeds; `number` 0: its workers do not end by themselves
  kSuspend,
  kResume,
  kDelete,  // the job, with all that it owns
  kKillOperator,
  kCutWatches,
  kExpireWatches,
  kRepeatEvents,  // until the end
  kSlowEvents,    // by `number` ms, until the end
  kBurst,         // the next `number` requests suffer `fault`
  kPauseEtcd,     // for `number` ms
  kRestartApiServer,
};

enum class RequestFault {
  kConflict,  // of writes alone
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
  bool settle = false;  // all jobs come to rest before the next step
};

// What a job must come to.
struct JobGoal {
  bool exists = false;
  bool finished = false;
  bool suspended = false;
  int replicas = 0;
  int launchers_lost = 0;  // since it was created
};

inline constexpr int kScheduleJobs = 2;
using Goals = std::array<JobGoal, kScheduleJobs>;

// What a step changes about it.
void Apply(const ScheduleStep& step, Goals& goals);

struct Schedule {
  uint64_t seed = 0;
  std::vector<ScheduleStep> steps;
};

// One in twenty has an outage: etcd stands still, or the API server is killed and comes back.
Schedule DrawSchedule(uint64_t seed);

// The same without what ends the operator: what it holds is then seen to grow or not.
Schedule WithoutKills(Schedule schedule);

// A line a step.
std::string TextOf(const Schedule& schedule);

}  // namespace ringmaster::testing
