#include "tests/integration/schedule_player.h"

#include <cstdio>
#include <map>

#include "operator/api/names.h"

namespace ringmaster::testing {

void Burst::Begin(RequestFault fault, int requests) {
  const std::lock_guard lock(mutex_);
  fault_ = fault;
  left_ = requests;
}

Fault Burst::Decide(const ProxiedRequest& request) {
  const std::lock_guard lock(mutex_);
  if (left_ == 0 || request.IsLease() || request.IsWatch()) return Pass();
  if (fault_ == RequestFault::kConflict && !request.IsWrite()) return Pass();
  --left_;
  switch (fault_) {
    case RequestFault::kConflict:
      return Answer(409, "Conflict");
    case RequestFault::kThrottled:
      return Answer(429, "TooManyRequests", 1);
    case RequestFault::kServerError:
      return Answer(500, "InternalError");
    case RequestFault::kUnavailable:
      return Answer(503, "ServiceUnavailable");
    case RequestFault::kCutBefore:
      return CutBefore();
    case RequestFault::kCutAfter:
      return CutAfter();
    case RequestFault::kSlow: {
      Fault slow = Pass();
      slow.delay = std::chrono::milliseconds(300);
      return slow;
    }
  }
  return Pass();
}

void SchedulePlayer::SetUp() {
  ASSERT_NO_FATAL_FAILURE(ClusterTest::SetUp());
  const auto collects = plane().StartControllerManager("garbage-collector-controller");
  ASSERT_TRUE(collects.ok()) << collects.error().message;
  StartKubelet();
  StartOperator();
}
void SchedulePlayer::TearDown() {
  proxy().SetPolicy(nullptr);
  ClusterTest::TearDown();
  plane().StopControllerManager();
}

void SchedulePlayer::Play(const Schedule& schedule) {
  names_.clear();
  deleted_.clear();
  for (int job = 0; job < kScheduleJobs; ++job) {
    names_.push_back("s" + std::to_string(schedule.seed) + "-" + std::to_string(job));
  }
  goals_ = {};
  proxy().Forget();
  proxy().SetPolicy([this](const ProxiedRequest& request) { return burst_.Decide(request); });
  const auto begin = std::chrono::steady_clock::now();
  for (const ScheduleStep& step : schedule.steps) {
    ASSERT_NO_FATAL_FAILURE(Do(step));
    if (!step.settle) continue;
    ASSERT_NO_FATAL_FAILURE(Settle());
  }
  burst_.End();
  proxy().SetRepeatEvents(false);
  proxy().SetEventDelay(std::chrono::milliseconds(0));
  const auto healed = std::chrono::steady_clock::now();
  ASSERT_NO_FATAL_FAILURE(Settle());
  const auto settled = std::chrono::steady_clock::now();
  Check(settled - begin);
  ASSERT_NO_FATAL_FAILURE(Clear());
  const auto seconds = [](auto from, auto to) {
    return std::chrono::duration<double>(to - from).count();
  };
  std::printf("seed %llu: injected in %.1f s, idle after %.1f s, deleted in %.1f s\n",
              static_cast<unsigned long long>(schedule.seed), seconds(begin, healed),
              seconds(healed, settled), seconds(settled, std::chrono::steady_clock::now()));
  std::fflush(stdout);
}

void SchedulePlayer::Do(const ScheduleStep& step) {
  // Settle before a step on one Pod, so that the Pod exists and the launcher's verdict is valid.
  const bool of_pod = step.kind == StepKind::kDeletePod || step.kind == StepKind::kLoseLauncher ||
                      step.kind == StepKind::kFinish;
  if (of_pod) {
    ASSERT_NO_FATAL_FAILURE(Settle());
  }
  switch (step.kind) {
    case StepKind::kCreate:
      ASSERT_NO_FATAL_FAILURE(AwaitName(Name(step)));
      ASSERT_NO_FATAL_FAILURE(CreateJob(Name(step), step.number));
      break;
    case StepKind::kScale: {
      const Response scaled = admin().MergePatch(
          JobPath(Name(step)), {{"spec", {{"worker", {{"replicas", step.number}}}}}});
      ASSERT_TRUE(scaled.ok()) << scaled.Text();
      break;
    }
    case StepKind::kDeletePod: {
      const std::set<std::string> workers = Live(Name(step), api::kRoleWorker);
      const std::string victim = *std::next(workers.begin(), step.number);
      const std::string uid = Uid(victim);
      ASSERT_TRUE(admin().Delete(Path("pods", victim)).ok()) << victim;
      // Wait, because the job looks settled until the Pod is gone.
      WaitFor("the Pod's end", [&] { return Uid(victim) != uid; });
      break;
    }
    case StepKind::kLoseLauncher:
      ASSERT_NO_FATAL_FAILURE(LoseLauncher(Name(step)));
      break;
    case StepKind::kFinish:
      ASSERT_NO_FATAL_FAILURE(Finish(step));
      break;
    case StepKind::kSuspend:
    case StepKind::kResume: {
      const bool suspend = step.kind == StepKind::kSuspend;
      const Response changed =
          admin().MergePatch(JobPath(Name(step)), {{"spec", {{"suspend", suspend}}}});
      ASSERT_TRUE(changed.ok()) << changed.Text();
      break;
    }
    case StepKind::kDelete:
      deleted_.insert(TextAt(Job(Name(step)), "/metadata/uid"));
      ASSERT_TRUE(admin().Delete(JobPath(Name(step))).ok());
      break;
    case StepKind::kKillOperator:
      op().Kill();
      ASSERT_NO_FATAL_FAILURE(LaunchOperator());
      break;
    case StepKind::kCutWatches:
      proxy().CutWatches();
      break;
    case StepKind::kExpireWatches:
      proxy().ExpireWatches();
      break;
    case StepKind::kRepeatEvents:
      proxy().SetRepeatEvents(true);
      break;
    case StepKind::kSlowEvents:
      proxy().SetEventDelay(std::chrono::milliseconds(step.number));
      break;
    case StepKind::kBurst:
      burst_.Begin(step.fault, step.number);
      break;
    case StepKind::kPauseEtcd:
      plane().PauseEtcd(std::chrono::milliseconds(step.number));
      break;
    case StepKind::kRestartApiServer: {
      const auto back = plane().RestartApiServer();
      ASSERT_TRUE(back.ok()) << back.error().message;
      break;
    }
  }
  Apply(step, goals_);
}

void SchedulePlayer::Finish(const ScheduleStep& step) {
  const std::set<std::string> workers = Live(Name(step), api::kRoleWorker);
  ASSERT_NO_FATAL_FAILURE(
      FinishJob(Name(step), Success(Goal(step).replicas),
                std::stoll(TextAt(Job(Name(step)), "/status/internal/launcherTerm"))));
  if (step.number == 0) return;
  for (const std::string& worker : workers) kubelet().Terminate(worker, 0, "");
}

// Returns once the operator has noticed the loss, because the job looks settled until then.
void SchedulePlayer::LoseLauncher(const std::string& job) {
  const std::string launcher = Launcher(job);
  ASSERT_TRUE(kubelet().Terminate(launcher, 0, "").ok()) << launcher;
  WaitFor("the next term of " + job, [&] { return Launcher(job) != launcher; });
}

// Waits until an earlier job of this name is gone, as a user would. Its Pods may still exist.
void SchedulePlayer::AwaitName(const std::string& name) {
  WaitFor("the name " + name + " to be free",
          [&] { return TextAt(Job(name), "/reason") == "NotFound"; });
}

std::string SchedulePlayer::Uid(const std::string& pod) {
  return TextAt(admin().Get(Path("pods", pod)).body, "/metadata/uid");
}
std::string SchedulePlayer::Launcher(const std::string& job) {
  return job + "-launcher-" + TextAt(Job(job), "/status/internal/launcherTerm");
}
std::set<std::string> SchedulePlayer::Live(const std::string& job, const std::string& role) {
  const std::vector<std::string> names = admin().Names(
      Path("pods") + "?labelSelector=" + api::kLabelJobName + "=" + job + "," + api::kLabelRole +
      "=" + role + "&fieldSelector=status.phase!=Succeeded,status.phase!=Failed");
  return {names.begin(), names.end()};
}

// Returns how the job differs from its goal; "" if it does not. Lists Pods only once the status is
// right, because frequent polling would slow down the API server for the operator.
std::string SchedulePlayer::Unsettled(const std::string& name, const JobGoal& goal) {
  const json job = Job(name);
  if (!goal.exists) return TextAt(job, "/reason") == "NotFound" ? "" : name + " exists";
  const std::string wanted = goal.finished ? "Succeeded" : goal.suspended ? "Suspended" : "Running";
  if (TextAt(job, "/status/state") != wanted) return name + " is not " + wanted;
  if (TextAt(job, "/status/observedGeneration") != TextAt(job, "/metadata/generation"))
    return name + "'s status is old";
  const bool runs = !goal.finished && !goal.suspended;
  for (const char* count : {"desired", "ready", "members"}) {
    if (runs && At(job, "/status/workers").value(count, -1) != goal.replicas)
      return name + "'s " + count + " workers";
  }
  for (const json& condition : At(job, "/status/conditions")) {
    if (runs && TextAt(condition, "/type") == "Resizing" && TextAt(condition, "/status") == "True")
      return name + " is resizing";
  }
  const std::set<std::string> launchers = Live(name, api::kRoleLauncher);
  const std::set<std::string> workers = Live(name, api::kRoleWorker);
  if (!runs) return launchers.empty() && workers.empty() ? "" : name + " has live Pods";
  const std::string launcher = name + "-launcher-" + TextAt(job, "/status/internal/launcherTerm");
  if (launchers != std::set<std::string>{launcher}) return name + "'s launchers";
  if (static_cast<int>(workers.size()) != goal.replicas) return name + "'s workers";
  return "";
}

void SchedulePlayer::Settle() {
  std::string unsettled;
  const auto settled = [&] {
    for (int job = 0; job < kScheduleJobs; ++job) {
      const auto at = static_cast<std::size_t>(job);
      unsettled = Unsettled(names_[at], goals_[at]);
      if (!unsettled.empty()) return false;
    }
    return true;
  };
  WaitFor("all jobs to come to rest", settled, std::chrono::seconds(300));
  if (HasFatalFailure()) FAIL() << unsettled;
}

void SchedulePlayer::Check(std::chrono::steady_clock::duration took) {
  std::map<std::string, int> launchers;  // by job UID and Pod name; each must be created once
  for (const ProxiedRequest& write : proxy().Writes()) {
    if (write.method != "POST" || write.status != 201 || !write.Path().ends_with("/pods")) continue;
    const json pod = json::parse(write.body);
    const std::string name = TextAt(pod, "/metadata/name");
    if (name.find("-launcher-") == std::string::npos) continue;
    // Skip deleted jobs: their launcher may be replaced before the deletion is complete.
    const std::string job = TextAt(pod, "/metadata/ownerReferences/0/uid");
    if (!deleted_.contains(job)) ++launchers[job + " " + name];
  }
  for (const auto& [launcher, count] : launchers) EXPECT_EQ(count, 1) << launcher;

  for (int job = 0; job < kScheduleJobs; ++job) {
    const auto at = static_cast<std::size_t>(job);
    if (!goals_[at].exists) continue;
    int lost = 0;
    for (const json& failure : At(Job(names_[at]), "/status/failures")) {
      lost += TextAt(failure, "/reason") == "LauncherLost" ? 1 : 0;
    }
    EXPECT_LE(lost, goals_[at].launchers_lost) << names_[at];
  }

  // Limits the requests of the operator, to detect loops without pauses.
  std::size_t requests = 0;
  for (const ProxiedRequest& request : proxy().Requests()) requests += request.IsLease() ? 0 : 1;
  const double seconds = std::chrono::duration<double>(took).count();
  EXPECT_LE(static_cast<double>(requests), 400 + 20 * seconds);
}

void SchedulePlayer::Clear() {
  for (JobGoal& goal : goals_) goal = {};
  for (const std::string& name : names_) admin().Delete(JobPath(name));
  WaitFor("an empty namespace", [&] {
    return Names("pods").empty() && Names("services").empty() && Names("secrets").empty();
  });
}

}  // namespace ringmaster::testing
