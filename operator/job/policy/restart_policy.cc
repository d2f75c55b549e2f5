#include "operator/job/policy/restart_policy.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/control/reasons.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/model/foreign_times.h"
#include "operator/job/policy/crash_policy.h"
#include "operator/job/policy/replacement_policy.h"

namespace ringmaster::job {

namespace {

// Formats a duration for messages: "2 h 5 min", "12 min 3 s" or "4 s".
std::string TimeText(std::chrono::milliseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  if (seconds >= 3600) {
    return std::to_string(seconds / 3600) + " h " + std::to_string(seconds % 3600 / 60) + " min";
  }
  if (seconds >= 60) {
    return std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
  }
  return std::to_string(seconds) + " s";
}

std::string WithNode(const std::string& pod, const std::string& node) {
  return pod + (node.empty() ? "" : " on node " + node);
}

// Describes the failure of the rank that ended the world or, if it is unknown, names the worker.
std::string CauseText(const api::Recovery& recovery, const std::vector<api::Failure>& failures) {
  static constexpr std::string_view kOfRanks[]{control::kCauseRankExited, control::kCauseRankKilled,
                                               control::kCauseStalled, control::kReasonOOMKilled};
  const bool of_rank = std::ranges::find(kOfRanks, recovery.cause) != std::end(kOfRanks);
  const std::string text = (of_rank ? "" : "its world changed, ") + recovery.cause;
  // Failures are sorted newest first, so those after the last restart's entry are older.
  const auto restarted =
      std::ranges::find(failures, api::kReasonProgramRestarted, &api::Failure::reason);
  const auto failure = std::find_if(failures.begin(), restarted, [&](const api::Failure& known) {
    return of_rank && known.worker == recovery.worker && known.rank >= 0;
  });
  if (failure != restarted) {
    api::Failure shown = *failure;
    // The event OOMKilled has the memory limit and what to do.
    if (shown.reason == control::kReasonOOMKilled) shown.last_lines.clear();
    return text + " (" + FailureText(shown) + ")";
  }
  if (recovery.worker.empty()) return text;
  return text + " (" + WithNode(recovery.worker, recovery.node) + ")";
}

void ReportRestart(Clock::WallTime now, api::Failure where, const std::string& cause,
                   std::optional<std::chrono::milliseconds> ran, Plan& plan) {
  const std::string text = "the program restarts from its beginning" +
                           (ran ? " after running for " + TimeText(*ran) : std::string()) + ": " +
                           cause;
  where.reason = api::kReasonProgramRestarted;
  where.last_lines = {text};
  where.time = FormatTime(now);
  AddFailure(plan.status.failures, std::move(where));
  plan.AddEvent(true, api::kReasonProgramRestarted, api::kActionReplace, text);
}

}  // namespace

void ReportRestartByLauncher(const api::TrainingJob& job, const PodPtr& launcher,
                             Clock::WallTime now, Plan& plan) {
  const api::Condition* running = api::FindCondition(job.status.conditions, api::kRunning);
  const bool ran = running != nullptr && running->status == api::ConditionStatus::kTrue;
  if (!ran || job.spec.InPlace()) return;
  api::Failure where;
  where.worker = launcher != nullptr ? launcher->name
                                     : api::LauncherPodName(job.name, job.status.launcher_term);
  where.node = launcher != nullptr ? launcher->node : "";
  where.start = "launcher " + std::to_string(job.status.launcher_term);
  const std::string cause = "its launcher " + WithNode(where.worker, where.node) + " was lost";
  std::optional<std::chrono::milliseconds> time;
  if (const auto since = ParseTime(running->last_transition_time)) {
    time = std::chrono::ceil<std::chrono::milliseconds>(now - *since);
  }
  ReportRestart(now, std::move(where), cause, time, plan);
}

void ReportRestartInNewWorld(const api::TrainingJobStatus& old, Clock::WallTime now, Plan& plan) {
  const auto& recovery = plan.status.last_recovery;
  if (!recovery || recovery == old.last_recovery || !recovery->from_start) return;
  if (recovery->cause == api::kReasonLauncherLost) return;  // ReportRestartByLauncher() reported it
  api::Failure where;
  where.worker = recovery->worker;
  where.node = recovery->node;
  where.start = "epoch " + std::to_string(recovery->epoch);
  const std::string cause = CauseText(*recovery, plan.status.failures);
  std::optional<std::chrono::milliseconds> ran;
  if (recovery->ran_millis > 0) ran = std::chrono::milliseconds(recovery->ran_millis);
  ReportRestart(now, std::move(where), cause, ran, plan);
  plan.events.back().of_status = true;
}

}  // namespace ringmaster::job
