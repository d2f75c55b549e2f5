#include "operator/job/controller/job_changes.h"

#include <algorithm>

#include "common/control/reasons.h"
#include "common/control/verdict.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/model/foreign_times.h"

namespace ringmaster::job {

namespace {

using api::Condition;
using api::TrainingJob;
using api::TrainingJobStatus;

// Returns the reasons why a worker Pod ends: Ringmaster's, and those of the kubelet and scheduler.
const std::vector<std::string>& WorkerCauses() {
  static const std::vector<std::string> causes{api::kReasonWorkerFailed,
                                               api::kReasonWorkerLost,
                                               api::kReasonNodeLost,
                                               api::kReasonNodeNotReady,
                                               control::kReasonOOMKilled,
                                               "Error",
                                               "Evicted",
                                               "Preempting",
                                               "NodeShutdown",
                                               "Terminated",
                                               "UnexpectedAdmissionError",
                                               kOther};
  return causes;
}

Restart RestartOf(const api::Failure& failure) {
  if (failure.reason == api::kReasonLauncherLost ||
      failure.reason == api::kReasonLauncherOOMKilled) {
    return {api::kRoleLauncher, failure.reason};
  }
  if (!failure.start.empty() || failure.rank >= 0) {
    if (failure.reason == control::kReasonOOMKilled) return {kRoleRank, failure.reason};
    if (failure.signal > 0) return {kRoleRank, control::kCauseRankKilled};
    // A rank that did not end by itself hung, or its peers could not reach it.
    return {kRoleRank, failure.exit_code < 0 ? control::kCauseStalled : control::kCauseRankExited};
  }
  return {api::kRoleWorker, Bounded(failure.reason, WorkerCauses())};
}

std::optional<Clock::WallTime> TransitionOf(const TrainingJobStatus& status, const char* type) {
  const Condition* condition = api::FindCondition(status.conditions, type);
  if (condition == nullptr) return std::nullopt;
  return ParseTime(condition->last_transition_time);
}

FloatSeconds Between(Clock::WallTime from, Clock::WallTime to) {
  return std::max(FloatSeconds(0), FloatSeconds(to - from));
}

std::optional<FloatSeconds> SubmitToRunning(const TrainingJob& job,
                                            const TrainingJobStatus& after) {
  const bool started = !api::IsTrue(job.status.conditions, api::kRunning) &&
                       api::IsTrue(after.conditions, api::kRunning);
  if (!started || job.status.has_trained) return std::nullopt;
  const auto created = ParseTime(job.created_at);
  const auto running = TransitionOf(after, api::kRunning);
  if (!created || !running) return std::nullopt;
  return Between(*created, *running);
}

std::vector<Restart> NewRestarts(const TrainingJobStatus& before, const TrainingJobStatus& after) {
  std::vector<Restart> restarts;
  if (api::IsTerminal(after)) return restarts;  // the failure that ended the job is not retried
  // Entries are newest first, so entries before the newest known entry are new. Compare only fields
  // that identify an entry: the stack of an older entry may be removed, and a future time is
  // corrected.
  const auto same = [](const api::Failure& a, const api::Failure& b) {
    return a.pod_uid == b.pod_uid && a.start == b.start && a.reason == b.reason && a.rank == b.rank;
  };
  for (const api::Failure& failure : after.failures) {
    if (!before.failures.empty() && same(failure, before.failures.front())) break;
    if (failure.reason == api::kReasonProgramRestarted) continue;  // it counts as a recovery
    restarts.push_back(RestartOf(failure));
  }
  return restarts;
}

std::optional<JobEnd> EndOf(const TrainingJobStatus& before, const TrainingJobStatus& after) {
  if (api::IsTerminal(before) || !api::IsTerminal(after)) return std::nullopt;
  const bool succeeded = api::IsTrue(after.conditions, api::kSucceeded);
  const Condition* condition =
      api::FindCondition(after.conditions, succeeded ? api::kSucceeded : api::kFailed);
  return JobEnd{.succeeded = succeeded, .reason = Bounded(condition->reason, EndReasons())};
}

}  // namespace

JobChange ObserveChange(const TrainingJob& job, const TrainingJobStatus& after,
                        std::optional<Clock::WallTime> phase_since, Clock::WallTime now) {
  const TrainingJobStatus& before = job.status;
  JobChange change{.submit_to_running = SubmitToRunning(job, after),
                   .phase_left = std::nullopt,
                   .restarts = NewRestarts(before, after),
                   .recovery = std::nullopt,
                   .end = EndOf(before, after)};
  if (!before.state.empty() && before.state != after.state) {
    if (!phase_since) phase_since = PhaseSince(job);
    if (phase_since) {
      change.phase_left = PhaseLeft{.phase = before.state, .lasted = Between(*phase_since, now)};
    }
  }
  if (after.last_recovery && after.last_recovery != before.last_recovery) {
    change.recovery = after.last_recovery;
  }
  return change;
}

std::optional<Clock::WallTime> PhaseSince(const TrainingJob& job) {
  const TrainingJobStatus& status = job.status;
  if (status.state == api::kStateRunning || status.state == api::kStatePaused) {
    return TransitionOf(status, api::kRunning);
  }
  if (status.state == api::kStateSuspended) return TransitionOf(status, api::kSuspended);
  if (status.state == api::kStatePending) return WaitingSince(job);
  return std::nullopt;
}

std::optional<Clock::WallTime> WaitingSince(const TrainingJob& job) {
  const TrainingJobStatus& status = job.status;
  if (status.state.empty()) return ParseTime(job.created_at);
  if (status.state == api::kStatePaused) return TransitionOf(status, api::kRunning);
  if (status.state != api::kStatePending && status.state != api::kStateStarting) {
    return std::nullopt;
  }
  // If the job had a world, it has waited since the condition Running became false. Otherwise it
  // has waited since it was created or resumed.
  if (status.epoch > 0) {
    if (const auto lost = TransitionOf(status, api::kRunning)) return lost;
  }
  if (const auto started = ParseTime(status.start_time)) return started;
  return ParseTime(job.created_at);
}

std::vector<FloatSeconds> DrainTimes(const Plan& plan,
                                     const std::map<std::string, Clock::Time>& leaving_since,
                                     Clock::Time now) {
  std::vector<FloatSeconds> times;
  for (const PodDelete& pod : plan.deletes) {
    const auto since = leaving_since.find(pod.uid);
    if (since != leaving_since.end()) times.emplace_back(now - since->second);
  }
  return times;
}

const std::vector<Restart>& Restarts() {
  static const std::vector<Restart> all = [] {
    std::vector<Restart> restarts{{api::kRoleLauncher, api::kReasonLauncherLost},
                                  {api::kRoleLauncher, api::kReasonLauncherOOMKilled},
                                  {kRoleRank, control::kCauseRankKilled},
                                  {kRoleRank, control::kReasonOOMKilled},
                                  {kRoleRank, control::kCauseStalled},
                                  {kRoleRank, control::kCauseRankExited}};
    for (const std::string& cause : WorkerCauses()) restarts.push_back({api::kRoleWorker, cause});
    return restarts;
  }();
  return all;
}

// Returns the causes that launchers report (control::Recovery::cause).
const std::vector<std::string>& RecoveryCauses() {
  static const std::vector<std::string> causes{
      control::kCauseRankKilled,     control::kReasonOOMKilled,   control::kCauseRankExited,
      control::kCauseRankReplaced,   control::kCauseAgentLost,    control::kCauseAgentLeft,
      control::kCauseAgentRestarted, control::kCauseSilence,      control::kCauseStalled,
      control::kCauseNoAnswer,       control::kCausePodGone,      control::kCauseCannotReachPeers,
      control::kCauseLeft,           control::kCauseScaledDown,   control::kCauseWorkersJoin,
      control::kCauseWorldChanged,   control::kCauseLauncherLost, kOther};
  return causes;
}

const std::vector<std::string>& EndReasons() {
  static const std::vector<std::string> reasons{api::kReasonCompleted,
                                                control::kReasonAlreadyComplete,
                                                api::kReasonInvalidSpec,
                                                api::kReasonStartError,
                                                api::kReasonDeadlineExceeded,
                                                api::kReasonStartTimeout,
                                                api::kReasonPodSecurity,
                                                control::kReasonWorldMismatch,
                                                control::kReasonRankFailed,
                                                control::kReasonOOMKilled,
                                                control::kReasonCrashLoop,
                                                control::kReasonUserError,
                                                control::kReasonPreflightFailed,
                                                control::kReasonCredentialsMismatch,
                                                control::kReasonMpirunFailed,
                                                control::kReasonLauncherError,
                                                kOther};
  return reasons;
}

const std::vector<std::string>& Phases() {
  static const std::vector<std::string> phases{
      api::kStatePending,   api::kStateStarting,  api::kStateRunning, api::kStatePaused,
      api::kStateSuspended, api::kStateSucceeded, api::kStateFailed};
  return phases;
}

std::string Bounded(const std::string& value, const std::vector<std::string>& values) {
  return std::find(values.begin(), values.end(), value) == values.end() ? kOther : value;
}

}  // namespace ringmaster::job
