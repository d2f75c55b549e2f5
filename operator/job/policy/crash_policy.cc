#include "operator/job/policy/crash_policy.h"

#include <algorithm>

#include "common/base/count_text.h"
#include "common/control/reasons.h"
#include "common/control/verdict.h"
#include "operator/api/names.h"
#include "operator/job/model/foreign_times.h"

namespace ringmaster::job {

namespace {

constexpr int64_t kMostCrashes = 1 << 24;  // maximum count in a status
constexpr auto kOneCrash = std::chrono::seconds(5);
// Shells and container runtimes report the signals 1 to 31 as the exit codes 128 + signal.
constexpr int kBySignal = 128;
constexpr int kHighestSignal = 31;
constexpr int kToldToGo = kBySignal + 15;  // exit code of an agent or launcher after SIGTERM

int LimitOf(const api::TrainingJob& job) {
  return job.spec.run_policy.restart.value_or(api::RestartLimit{}).crash_limit;
}

bool RanOutOfMemory(const api::Failure& failure) {
  return failure.reason == control::kReasonOOMKilled ||
         failure.reason == api::kReasonLauncherOOMKilled;
}

// Returns true for a crash. A rank that has a start but no number ended while it was loading.
bool IsCrash(const api::Failure& failure) {
  if (failure.reason == api::kReasonProgramRestarted) return false;  // its world changed
  const bool loading = !failure.start.empty() && failure.rank < 0;
  return RanOutOfMemory(failure) || loading || failure.signal > 0 ||
         (failure.exit_code > kBySignal && failure.exit_code <= kBySignal + kHighestSignal);
}

// Returns the newest entry for a crash, or null if the list does not contain one any more.
const api::Failure* NewestCrash(const api::TrainingJobStatus& status) {
  const auto found = std::find_if(status.failures.begin(), status.failures.end(), IsCrash);
  return found == status.failures.end() ? nullptr : &*found;
}

int64_t StepOfStatus(const api::TrainingJobStatus& status) {
  return status.progress ? status.progress->step : 0;
}

// Returns the newest known step. The launcher's report is usually newer than the status.
int64_t StepNow(const api::TrainingJob& job, const control::LauncherStatus* answer) {
  const int64_t known = StepOfStatus(job.status);
  return answer != nullptr && answer->progress ? std::max(known, answer->progress->step) : known;
}

// Resets the crashes if training has progressed since the last crash.
void ForgetOldCrashes(int64_t step, api::TrainingJobStatus& status) {
  if (status.crashes && step > status.crashes->step) status.crashes.reset();
}

}  // namespace

bool HasCrashed(const PodView& pod) {
  const ContainerView& container = pod.container;
  if (pod.deleting || !pod.reason.empty() || !container.terminated) return false;
  if (container.ended_reason == control::kReasonOOMKilled) return true;
  // For a reason other than "Error", the exit code may come from the kubelet, not the container.
  if (container.ended_reason != "Error" || container.exit_code == kToldToGo) return false;
  return container.signal > 0 ||
         (container.exit_code > kBySignal && container.exit_code <= kBySignal + kHighestSignal);
}

std::string MemoryText(const PodView& pod) {
  const bool launcher = pod.role == Role::kLauncher;
  const auto field = [launcher](const std::string& kind) {
    return launcher
               ? "resources." + kind + "s.memory of container launcher in spec.launcher.template"
               : "spec.worker.resources." + kind + "s.memory (or the " + kind +
                     " in spec.worker.template)";
  };
  const std::string& limit = pod.container.memory_limit;
  if (limit.empty()) {
    return "the container has no memory limit, so its node or Pod ran out of memory; set " +
           field("request");
  }
  return "the memory limit of the container is " + limit + "; raise " + field("limit") +
         (launcher ? "" : ", or reduce the memory use of a rank, for example its batch size");
}

std::string FailureText(const api::Failure& failure) {
  std::string text;
  if (failure.rank >= 0) {
    text = "rank " + std::to_string(failure.rank) + " on ";
  } else if (!failure.start.empty()) {
    text = "a rank on ";
  }
  text += failure.worker + (failure.node.empty() ? "" : " on node " + failure.node);
  if (RanOutOfMemory(failure)) {
    return text + " ran out of memory" +
           (failure.last_lines.empty() ? "" : ": " + failure.last_lines.front());
  }
  if (failure.reason == api::kReasonDeviceUnhealthy) {
    return text + " has an unhealthy GPU" +
           (failure.last_lines.empty() ? "" : ": " + failure.last_lines.back());
  }
  // The rank did not end by itself: it hung, or the other ranks could not reach it.
  if (failure.signal == 0 && failure.exit_code < 0) {
    return failure.last_lines.empty() ? text : text + ": " + failure.last_lines.back();
  }
  text += failure.signal > 0 ? " was killed by signal " + std::to_string(failure.signal)
                             : " ended with exit code " + std::to_string(failure.exit_code);
  return failure.last_lines.empty() ? text : text + "; last output: " + failure.last_lines.back();
}

void CountCrashedPod(const api::TrainingJob& job, const control::LauncherStatus* answer,
                     Clock::WallTime now, api::TrainingJobStatus& status) {
  const int64_t step = StepNow(job, answer);
  ForgetOldCrashes(step, status);
  if (!status.crashes) status.crashes.emplace();
  api::Crashes& crashes = *status.crashes;
  const auto last = ParseTime(crashes.time);
  const auto age = last ? now - *last : Clock::WallTime::duration::max();
  // A job in mode Restart reports no steps, so only a long run shows progress.
  const bool in_place = job.spec.InPlace();
  const auto window = job.spec.run_policy.restart.value_or(api::RestartLimit{}).window;
  if (!in_place && last && age > window) crashes.count = crashes.of_launcher = 0;
  if (crashes.count > 0 && last && age >= Clock::WallTime::duration::zero() && age <= kOneCrash) {
    return;
  }
  ++crashes.count;
  crashes.step = std::max(crashes.step, step);
  crashes.time = FormatTime(now);
}

void CountCrashesOfLauncher(const api::TrainingJob& job, const control::LauncherStatus* answer,
                            Clock::WallTime now, api::TrainingJobStatus& status) {
  if (answer == nullptr) return;
  const int64_t step = StepNow(job, answer);
  ForgetOldCrashes(step, status);
  const int counted = answer->crashes;
  if (!status.crashes) {
    if (counted == 0) return;
    status.crashes.emplace();
  }
  api::Crashes& crashes = *status.crashes;
  if (counted > crashes.of_launcher) {
    // Limit the sum, so that varying answers cannot make it overflow.
    crashes.count = static_cast<int>(
        std::min<int64_t>(int64_t{crashes.count} + counted - crashes.of_launcher, kMostCrashes));
    crashes.time = FormatTime(now);
    crashes.step = std::max(crashes.step, step);
  }
  // In mode Restart, the launcher's count decreases when crashes are old, so decrease the sum, too.
  if (counted < crashes.of_launcher && !job.spec.InPlace()) {
    crashes.count += counted - crashes.of_launcher;
    if (counted > 0) crashes.time = FormatTime(now);
  }
  crashes.of_launcher = counted;
}

void BeginCountOfNextLauncher(api::TrainingJobStatus& status) {
  if (status.crashes) status.crashes->of_launcher = 0;
}

std::string CrashText(const api::TrainingJob& job, const api::TrainingJobStatus& status) {
  if (!status.crashes || status.crashes->count == 0) return "";
  const api::Failure* newest = NewestCrash(status);
  if (newest == nullptr) return "";
  if (status.crashes->count == 1 && !RanOutOfMemory(*newest)) return "";
  const int limit = LimitOf(job);
  return FailureText(*newest) + ". It has happened " + TimesText(status.crashes->count) +
         " without a completed step" +
         (limit > 0
              ? "; the job fails at " + std::to_string(limit) + " (runPolicy.restart.crashLimit)"
              : std::string());
}

std::string CrashReason(const api::TrainingJobStatus& status) {
  const api::Failure* newest = NewestCrash(status);
  const bool memory = newest != nullptr && RanOutOfMemory(*newest);
  return memory ? control::kReasonOOMKilled : control::kReasonCrashLoop;
}

std::optional<Outcome> JudgeCrashes(const api::TrainingJob& job,
                                    const api::TrainingJobStatus& status) {
  const int limit = LimitOf(job);
  if (limit == 0 || !status.crashes || status.crashes->count < limit) return std::nullopt;
  // If the launcher has counted all crashes, it fails the job itself, with the last output.
  if (status.crashes->count == status.crashes->of_launcher) return std::nullopt;
  const api::Failure* newest = NewestCrash(status);
  Outcome outcome{.succeeded = false,
                  .reason = CrashReason(status),
                  .message = (newest == nullptr ? "its Pods were killed" : FailureText(*newest)) +
                             ". It happened " + TimesText(status.crashes->count) +
                             " without a completed step, which is the limit "
                             "(runPolicy.restart.crashLimit)",
                  .verdict = std::nullopt,
                  .failure = std::nullopt};
  if (newest != nullptr) outcome.failure = *newest;
  return outcome;
}

}  // namespace ringmaster::job
