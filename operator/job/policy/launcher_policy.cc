#include "operator/job/policy/launcher_policy.h"

#include "operator/job/policy/node_policy.h"

namespace ringmaster::job {

namespace {

// One exchange that failed may have been our own being late.
constexpr int kLeastUnanswered = 2;

// Whether it ever answered an operator: this one, or an earlier one that wrote down a world.
bool HasAnswered(const PlanInput& input) {
  return input.launcher->status.has_value() || input.job.status.world_size > 0;
}

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
         " do not answer at once, which is more likely the operator's own network than the "
         "launchers: this one is replaced only if it stays silent for " +
         std::to_string((kLauncherSilenceLimit + kLauncherHoldLimit).count()) + " s";
}

LauncherCheck JudgeSilence(const PlanInput& input, const std::string& who, bool node_not_ready) {
  const auto silence = input.now - *input.launcher->unheard_since;
  const LaunchersHeard& all = input.launchers;
  if (silence < kLauncherSilenceLimit) {
    const auto left = kLauncherSilenceLimit - silence;
    return {.lost = {}, .held = {}, .again = std::chrono::ceil<std::chrono::milliseconds>(left)};
  }
  const auto hold_left = kLauncherSilenceLimit + kLauncherHoldLimit - silence;
  if (hold_left.count() > 0 && MoreLikelyOurNetwork(all) && !node_not_ready) {
    return {.lost = {},
            .held = WhyHeld(all),
            .again = std::chrono::ceil<std::chrono::milliseconds>(hold_left)};
  }
  if (input.launcher->unheard_times < kLeastUnanswered) return {};  // the next failure is news
  return {.lost = who + " has not answered the operator for " +
                  std::to_string(kLauncherSilenceLimit.count()) + " s",
          .held = {},
          .again = {}};
}

}  // namespace

LauncherCheck CheckLauncher(const PlanInput& input) {
  const PodPtr& launcher = input.observed.launcher;
  if (launcher == nullptr || launcher->deleting || launcher->Ended()) return {};
  const NodeFate fate = FateOfNode(*launcher, input.observed.nodes, input.memory);
  const std::string who = launcher->name + " " + WherePodRuns(*launcher, input.observed.nodes);
  if (fate == NodeFate::kGone) {
    return {.lost = launcher->name + " is lost with its node " + launcher->node,
            .held = {},
            .again = {}};
  }
  if (fate == NodeFate::kNotReady && !ManyUnreachable(input.observed).empty()) return {};
  const bool asked = input.launcher && input.launcher->pod_uid == launcher->uid;
  if (asked && HasAnswered(input)) {
    if (!input.launcher->unheard_since) return {};
    return JudgeSilence(input, who, fate == NodeFate::kNotReady);
  }
  const bool silent =
      asked ? input.launcher->unheard_times >= kLeastUnanswered : launcher->ip.empty();
  if (fate == NodeFate::kNotReady && silent) {
    return {.lost = who + ", has never answered the operator", .held = {}, .again = {}};
  }
  return {};
}

}  // namespace ringmaster::job
