#include "operator/job/policy/verdict_policy.h"

#include <algorithm>
#include <array>
#include <csignal>

#include "common/base/count_text.h"
#include "common/base/cut_text.h"
#include "common/control/exit_codes.h"
#include "common/control/exit_text.h"
#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "operator/api/names.h"
#include "operator/job/model/foreign_times.h"
#include "operator/job/model/launcher_words.h"
#include "operator/job/policy/crash_policy.h"
#include "operator/job/policy/start_advice.h"

namespace ringmaster::job {

namespace {

constexpr std::size_t kMaxLines = 10;
constexpr std::size_t kMaxLineBytes = 300;
constexpr char kHowToEndUserErrors[] =
    ". Exit code 2 is not retried: correct the program's arguments or data, then delete the job "
    "and apply it again";
constexpr char kHowToEndFailures[] =
    ". Correct the program or its input, then delete the job and apply it again";
constexpr char kThenApplyAgain[] = ". Then delete the job and apply it again";

template <typename Words>
bool ContainsAny(const std::string& text, const Words& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* part) { return text.find(part) != std::string::npos; });
}

// Returns true if a runtime reports that the program is not in the image or cannot be executed.
// Other files, such as the driver's library, may be missing because of the node.
bool NamesMissingProgram(const std::string& message) {
  constexpr std::array kWords{"executable file not found", "no command specified",
                              "exec format error"};
  constexpr std::array kOfAnyFile{"no such file or directory", "permission denied"};
  constexpr std::array kOfPrograms{"exec: \"", "exec /", "executable file `"};
  return ContainsAny(message, kWords) ||
         (ContainsAny(message, kOfAnyFile) && ContainsAny(message, kOfPrograms));
}

// Returns true if the kubelet has just started and has not read ConfigMaps, Secrets or Services.
bool NamesLateKubelet(const std::string& message) {
  constexpr std::array kWords{"failed to sync", "not yet been read"};
  return ContainsAny(message, kWords);
}

// Explains the runtime's message to the user if the image does not contain the program.
std::string WhatTheImageLacks(const PodView& pod, const std::string& message) {
  const char* program =
      pod.role == Role::kLauncher ? control::kLauncherProgram : control::kAgentProgram;
  if (message.find(program) == std::string::npos) return {};
  return std::string(". Its image has no ") + program +
         ", which starts and watches the ranks: let Ringmaster inject its programs (spec.inject), "
         "or use an image built from ringmaster-worker";
}

std::string WhereIs(const PodView& pod) {
  return pod.name + (pod.node.empty() ? "" : " on node " + pod.node);
}

std::vector<std::string> LastLines(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(CutText(text.substr(begin, end - begin), kMaxLineBytes));
    begin = end + 1;
  }
  const std::size_t kept = std::min(lines.size(), kMaxLines);
  lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kept));
  return lines;
}

// Returns true if the program itself failed: it was not killed, and its host could start it.
bool IsOfTheProgram(const control::RankExit& failure) {
  return failure.signal != SIGKILL && failure.signal != SIGTERM &&
         failure.exit_code != control::kExitNotStarted;
}

Outcome OutcomeOf(control::Verdict verdict, const PodView& launcher, const std::string& wall_now) {
  Outcome outcome{.succeeded = verdict.succeeded,
                  .reason = verdict.reason,
                  .message = verdict.message,
                  .verdict = std::nullopt,
                  .failure = std::nullopt};
  if (verdict.succeeded && outcome.reason != control::kReasonAlreadyComplete) {
    outcome.reason = api::kReasonCompleted;
  }
  if (outcome.reason.empty()) outcome.reason = control::kReasonLauncherError;
  if (outcome.message.empty() && verdict.succeeded) {
    outcome.message = AllText(verdict.world_size, "rank") + " ended with exit code 0";
  }
  if (outcome.reason == control::kReasonUserError) outcome.message += kHowToEndUserErrors;
  const bool failed =
      outcome.reason == control::kReasonRankFailed || outcome.reason == control::kReasonCrashLoop;
  if (failed && (!verdict.first_failure || IsOfTheProgram(*verdict.first_failure))) {
    outcome.message += kHowToEndFailures;
  }
  if (outcome.reason == control::kReasonOOMKilled ||
      outcome.reason == control::kReasonPreflightFailed) {
    outcome.message += kThenApplyAgain;
  }
  if (!verdict.succeeded && verdict.first_failure) {
    outcome.failure = FailureOf(*verdict.first_failure, outcome.reason,
                                NotAfter(launcher.container.finished_at, wall_now));
  }
  if (verdict.checkpoint) {
    const auto since_then =
        *ParseTime(wall_now) - *ParseTime(NotAfter(launcher.container.finished_at, wall_now));
    verdict.checkpoint->age_millis +=
        std::chrono::duration_cast<std::chrono::milliseconds>(since_then).count();
  }
  outcome.verdict = std::move(verdict);
  return outcome;
}

std::optional<Outcome> JudgeVerdicts(const Observed& observed, const std::string& wall_now) {
  if (observed.launcher != nullptr) {
    if (auto verdict = VerdictOf(*observed.launcher)) {
      return OutcomeOf(*std::move(verdict), *observed.launcher, wall_now);
    }
  }
  // Accept only success from an earlier launcher: its end may have caused the failures it reports.
  for (const PodPtr& launcher : observed.old_launchers) {
    auto verdict = VerdictOf(*launcher);
    if (verdict && verdict->succeeded) return OutcomeOf(*std::move(verdict), *launcher, wall_now);
  }
  return std::nullopt;
}

std::optional<Outcome> JudgeStart(const PodView& pod, const std::string& wall_now) {
  const std::string why = CannotStart(pod);
  if (why.empty()) return std::nullopt;
  api::Failure failure = FailureOf(pod, wall_now);
  failure.reason = api::kReasonStartError;
  failure.last_lines = {CutText(why, kMaxLineBytes)};
  return Outcome{.succeeded = false,
                 .reason = api::kReasonStartError,
                 .message = why + kThenApplyAgain,
                 .verdict = std::nullopt,
                 .failure = std::move(failure)};
}

}  // namespace

std::optional<control::Verdict> VerdictOf(const PodView& launcher) {
  if (!launcher.container.terminated) return std::nullopt;
  Result<control::Verdict> verdict = control::DecodeVerdict(launcher.container.ended_message);
  if (!verdict.ok()) return std::nullopt;
  Bound(*verdict);
  return *std::move(verdict);
}

std::string CannotStart(const PodView& pod) {
  const ContainerView& container = pod.container;
  if (container.terminated) {
    const bool start_failed = container.ended_reason == "StartError" ||
                              container.ended_reason == "ContainerCannotRun" ||
                              container.ended_reason == "RunContainerError";
    return start_failed && NamesMissingProgram(container.ended_message)
               ? WhereIs(pod) + " cannot start: " + container.ended_message +
                     WhatTheImageLacks(pod, container.ended_message)
               : std::string();
  }
  const std::string& reason = container.waiting_reason;
  const bool final_reason =
      (reason == "CreateContainerConfigError" && !NamesLateKubelet(container.waiting_message)) ||
      reason == "InvalidImageName";
  const bool missing_program =
      (reason == "CreateContainerError" || reason == "RunContainerError") &&
      NamesMissingProgram(container.waiting_message);
  return final_reason || missing_program
             ? WhereIs(pod) + " cannot start (" + reason + "): " +
                   (missing_program ? container.waiting_message +
                                          WhatTheImageLacks(pod, container.waiting_message)
                                    : WhyNotCreated(container.waiting_message))
             : std::string();
}

std::optional<Outcome> JudgeOutcome(const Observed& observed, bool begun,
                                    const std::string& wall_now) {
  if (auto outcome = JudgeVerdicts(observed, wall_now)) return outcome;
  if (begun) return std::nullopt;
  if (observed.launcher != nullptr) {
    if (auto outcome = JudgeStart(*observed.launcher, wall_now)) return outcome;
  }
  for (const auto* bucket : {&observed.failed, &observed.live}) {
    for (const PodPtr& worker : *bucket) {
      if (auto outcome = JudgeStart(*worker, wall_now)) return outcome;
    }
  }
  return std::nullopt;
}

std::string HowItEnded(const PodView& pod) {
  const ContainerView& container = pod.container;
  std::string text = WhereIs(pod) + " ended";
  if (container.terminated) {
    text += container.signal > 0 ? " by signal " + std::to_string(container.signal)
                                 : " with exit code " + std::to_string(container.exit_code);
    if (!container.ended_reason.empty()) text += " (" + container.ended_reason + ")";
  } else if (!pod.reason.empty()) {
    text += " (" + pod.reason + (pod.message.empty() ? "" : ": " + pod.message) + ")";
  }
  return text;
}

api::Failure FailureOf(const PodView& pod, const std::string& wall_now) {
  const ContainerView& container = pod.container;
  api::Failure failure{.worker = pod.name,
                       .pod_uid = pod.uid,
                       .node = pod.node,
                       .rank = -1,
                       .start = "",
                       .exit_code = -1,
                       .signal = 0,
                       .reason = api::kReasonWorkerFailed,
                       .last_lines = {},
                       .stack = "",
                       .time = NotAfter(container.finished_at, wall_now)};
  if (container.terminated) {
    failure.exit_code = container.exit_code;
    failure.signal = container.signal;
    failure.last_lines = LastLines(container.ended_message);
  }
  if (!container.ended_reason.empty()) failure.reason = container.ended_reason;
  // This exit code comes from the agent, whose termination message describes the problem.
  if (failure.exit_code == control::kExitDeviceUnhealthy && pod.role == Role::kWorker) {
    failure.reason = api::kReasonDeviceUnhealthy;
  }
  if (!pod.reason.empty()) failure.reason = pod.reason;
  if (failure.reason == control::kReasonOOMKilled) {
    failure.last_lines.insert(failure.last_lines.begin(), MemoryText(pod));
  }
  if (failure.last_lines.empty() && !pod.message.empty()) {
    failure.last_lines = LastLines(pod.message);
  }
  return failure;
}

api::Failure FailureOf(const control::RankExit& exit, const std::string& reason,
                       const std::string& wall_now) {
  api::Failure failure{.worker = exit.pod,
                       .pod_uid = exit.pod_uid,
                       .node = exit.node,
                       .rank = exit.rank,
                       .start = exit.start,
                       .exit_code = exit.exit_code,
                       .signal = exit.signal,
                       .reason = reason,
                       .last_lines = exit.last_lines,
                       .stack = exit.stack,
                       .time = wall_now};
  if (exit.out_of_memory) {
    failure.reason = control::kReasonOOMKilled;
    failure.last_lines.insert(failure.last_lines.begin(), control::MemoryText(*exit.out_of_memory));
  }
  return failure;
}

}  // namespace ringmaster::job
