#include "operator/job/policy/launcher_policy.h"

#include "operator/job/policy/node_policy.h"

namespace ringmaster::job {

namespace {

// A launcher is lost only after this many failed exchanges: a slow operator may cause a failure.
constexpr int kLeastUnanswered = 2;
// After this time, a silent launcher is replaced even if the operator's network may be broken.
constexpr std::chrono::seconds kLongestSilence = kLauncherSilenceLimit + kLauncherHoldLimit;

bool MoreLikelyOurNetwork(const LaunchersHeard& all) {
  const bool own = all.unheard >= 2 && Most(all.unheard, all.watched);
  if (all.other_namespaces == 0) return own;
  return Most(all.silent_namespaces, all.other_namespaces) && (own || all.silent_namespaces >= 2);
}

std::string WhyHeld(const LaunchersHeard& all) {
  std::string who = std::to_string(all.unheard) + " of " + std::to_string(all.watched) +
                    " launchers of this namespace";
  if (all.other_namespaces > 0) {
    who += ", and most launchers of " + std::to_string(all.silent_namespaces) + " of " +
           std::to_string(all.other_namespaces) + " other namespaces,";
  }
  return who +
         " do not answer, which suggests a problem with the operator's network rather than with "
         "the launchers: this one is replaced only if it stays silent for " +
         std::to_string(kLongestSilence.count()) + " s";
}

std::chrono::milliseconds Left(Clock::Time::duration time) {
  return std::chrono::ceil<std::chrono::milliseconds>(time);
}

// Returns text such as "NAME on node X, which is not ready (REASON)".
std::string Who(const PodView& launcher, const NodesSeen& nodes) {
  return launcher.name + " " + WherePodRuns(launcher, nodes);
}

// Judges a silent launcher. REQUIRES: it answered an operator before but does not answer now.
LauncherCheck JudgeSilence(const Observed& observed, const LauncherHearing& hearing,
                           Clock::Time::duration silence, bool node_not_ready) {
  if (silence < kLauncherSilenceLimit) {
    return {.lost = {}, .held = {}, .again = Left(kLauncherSilenceLimit - silence)};
  }
  if (silence < kLongestSilence && MoreLikelyOurNetwork(hearing.all) && !node_not_ready) {
    return {.lost = {}, .held = WhyHeld(hearing.all), .again = Left(kLongestSilence - silence)};
  }
  if (hearing.own->unheard_times < kLeastUnanswered) return {};  // the next failure queues the job
  return {.lost = Who(*observed.launcher, observed.nodes) + " has not answered the operator for " +
                  std::to_string(kLauncherSilenceLimit.count()) + " s",
          .held = {},
          .again = {}};
}

}  // namespace

LauncherCheck CheckLauncher(const Observed& observed, const std::set<std::string>& known_nodes,
                            const LauncherHearing& hearing, Clock::Time now) {
  const PodPtr& launcher = observed.launcher;
  if (launcher == nullptr || launcher->deleting || launcher->Ended()) return {};
  const NodeFate fate = FateOfNode(*launcher, observed.nodes, known_nodes);
  if (fate == NodeFate::kGone) {
    return {.lost = launcher->name + " is lost with its node " + launcher->node,
            .held = {},
            .again = {}};
  }
  const bool node_not_ready = fate == NodeFate::kNotReady;
  if (node_not_ready && !ManyUnreachable(observed).empty()) return {};
  const LauncherView* own = hearing.own;
  if (own != nullptr && (own->status || hearing.answered_earlier)) {
    if (!own->unheard_since) return {};
    return JudgeSilence(observed, hearing, now - *own->unheard_since, node_not_ready);
  }
  const bool silent =
      own != nullptr ? own->unheard_times >= kLeastUnanswered : launcher->ip.empty();
  if (node_not_ready && silent) {
    return {.lost = Who(*launcher, observed.nodes) + ", has never answered the operator",
            .held = {},
            .again = {}};
  }
  return {};
}

}  // namespace ringmaster::job
