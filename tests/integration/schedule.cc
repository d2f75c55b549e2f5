#include "tests/integration/schedule.h"

#include <cstddef>
#include <random>

namespace ringmaster::testing {
namespace {

constexpr uint64_t kOutageEvery = 20;

class Drawing {
 public:
  explicit Drawing(uint64_t seed) : random_(seed) {}

  Schedule Draw(uint64_t seed) {
    schedule_.seed = seed;
    Add(Create(0));
    const int steps = Between(5, 9);
    for (int i = 0; i < steps; ++i) Add(Draw());
    if (seed % kOutageEvery == 0) Add(Outage(seed));
    Add(Draw());
    return schedule_;
  }

 private:
  // Returns the same numbers with every library, unlike std::uniform_int_distribution.
  int Between(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<uint64_t>(most - least + 1));
  }

  void Add(ScheduleStep step) {
    step.settle = Between(0, 3) == 0;
    Apply(step, goals_);
    schedule_.steps.push_back(step);
  }

  ScheduleStep Draw() { return Between(0, 1) == 0 ? DrawFault() : DrawChange(); }

  ScheduleStep Create(int job) {
    return {.kind = StepKind::kCreate, .job = job, .number = Between(1, 3)};
  }

  ScheduleStep DrawChange() {
    const int job = Between(0, kScheduleJobs - 1);
    const JobGoal& goal = goals_[static_cast<std::size_t>(job)];
    if (!goal.exists) return Create(job);
    if (goal.finished) return {.kind = StepKind::kDelete, .job = job};
    if (goal.suspended) {
      return {.kind = Between(0, 4) == 0 ? StepKind::kDelete : StepKind::kResume, .job = job};
    }
    switch (Between(0, 7)) {
      case 0:
      case 1:
        return {.kind = StepKind::kScale, .job = job, .number = Between(1, 4)};
      case 2:
      case 3:
        return {.kind = StepKind::kDeletePod, .job = job, .number = Between(0, goal.replicas - 1)};
      case 4:
        return {.kind = StepKind::kLoseLauncher, .job = job};
      case 5:
        return {.kind = StepKind::kFinish, .job = job, .number = Between(0, 7)};
      case 6:
        return {.kind = StepKind::kSuspend, .job = job};
      default:
        return {.kind = StepKind::kDelete, .job = job};
    }
  }

  ScheduleStep DrawFault() {
    switch (Between(0, 8)) {
      case 0:
        return {.kind = StepKind::kKillOperator};
      case 1:
        return {.kind = StepKind::kCutWatches};
      case 2:
        return {.kind = StepKind::kExpireWatches};
      case 3:
        return {.kind = StepKind::kRepeatEvents};
      case 4:
        return {.kind = StepKind::kSlowEvents, .number = Between(1, 40)};
      default: {
        const auto fault = static_cast<RequestFault>(Between(0, 6));
        // Throttle only one request, because each makes the operator wait at least a second.
        const int most = fault == RequestFault::kThrottled ? 1 : 4;
        return {.kind = StepKind::kBurst, .number = Between(1, most), .fault = fault};
      }
    }
  }

  ScheduleStep Outage(uint64_t seed) {
    if (seed / kOutageEvery % 2 == 0) return {.kind = StepKind::kRestartApiServer};
    return {.kind = StepKind::kPauseEtcd, .number = Between(500, 3000)};
  }

  std::mt19937_64 random_;
  Goals goals_;
  Schedule schedule_;
};

std::string NameOf(RequestFault fault) {
  switch (fault) {
    case RequestFault::kConflict:
      return "409";
    case RequestFault::kThrottled:
      return "429";
    case RequestFault::kServerError:
      return "500";
    case RequestFault::kUnavailable:
      return "503";
    case RequestFault::kCutBefore:
      return "cut before";
    case RequestFault::kCutAfter:
      return "cut after";
    case RequestFault::kSlow:
      return "slow";
  }
  return "";
}

std::string TextOf(const ScheduleStep& step) {
  const std::string job = "job " + std::to_string(step.job) + ": ";
  const std::string number = std::to_string(step.number);
  switch (step.kind) {
    case StepKind::kCreate:
      return job + "create with " + number + " workers";
    case StepKind::kScale:
      return job + "scale to " + number;
    case StepKind::kDeletePod:
      return job + "delete the Pod of worker " + number;
    case StepKind::kLoseLauncher:
      return job + "lose the launcher";
    case StepKind::kFinish:
      return job + "succeed" + (step.number == 0 ? ", with workers that do not end" : "");
    case StepKind::kSuspend:
      return job + "suspend";
    case StepKind::kResume:
      return job + "resume";
    case StepKind::kDelete:
      return job + "delete";
    case StepKind::kKillOperator:
      return "kill the operator";
    case StepKind::kCutWatches:
      return "cut all watches";
    case StepKind::kExpireWatches:
      return "expire all watches";
    case StepKind::kRepeatEvents:
      return "events come twice from now on";
    case StepKind::kSlowEvents:
      return "events come " + number + " ms late from now on";
    case StepKind::kBurst:
      return "the next " + number + " requests: " + NameOf(step.fault);
    case StepKind::kPauseEtcd:
      return "etcd stands still for " + number + " ms";
    case StepKind::kRestartApiServer:
      return "the API server is killed and started again";
  }
  return "";
}

}  // namespace

void Apply(const ScheduleStep& step, Goals& goals) {
  JobGoal& goal = goals[static_cast<std::size_t>(step.job)];
  switch (step.kind) {
    case StepKind::kCreate:
      goal = {.exists = true, .replicas = step.number};
      break;
    case StepKind::kScale:
      goal.replicas = step.number;
      break;
    case StepKind::kLoseLauncher:
      ++goal.launchers_lost;
      break;
    case StepKind::kFinish:
      goal.finished = true;
      break;
    case StepKind::kSuspend:
    case StepKind::kResume:
      goal.suspended = step.kind == StepKind::kSuspend;
      break;
    case StepKind::kDelete:
      goal = {};
      break;
    default:
      break;
  }
}

Schedule DrawSchedule(uint64_t seed) { return Drawing(seed).Draw(seed); }

Schedule WithoutKills(Schedule schedule) {
  std::erase_if(schedule.steps,
                [](const ScheduleStep& step) { return step.kind == StepKind::kKillOperator; });
  return schedule;
}

std::string TextOf(const Schedule& schedule) {
  std::string text = "schedule of seed " + std::to_string(schedule.seed) + ":\n";
  for (const ScheduleStep& step : schedule.steps) {
    text += "  " + TextOf(step) + (step.settle ? ", then all come to rest" : "") + "\n";
  }
  return text;
}

}  // namespace ringmaster::testing
