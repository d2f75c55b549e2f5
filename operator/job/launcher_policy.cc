#include "operator/job/launcher_policy.h"

#include "operator/job/node_policy.h"

namespace ringmaster::job {

namespace {

// One exchange that failed may have been our own being late.
constexpr int kLeastUnanswered = 2;

// Whether it ever answered an operator: this one, or an earlier one that wrote down a world.
bool HasAnswered(const PlanInput& input) {
  return input.launcher->status.has_value() || input.job.status.world_size > 0;
}

}  // namespace

LauncherCheck CheckLauncher(const PlanInput& input) {
  const PodPtr& launcher = input.observed.launcher;
  if (launcher == nullptr || launcher->deleting || launcher->Ended()) return {};
  const NodeFate fate = FateOfNode(*launcher, input.observed.nodes, input.memory);
  const std::string who = launcher->name + " " + WherePodRuns(*launcher, input.observed.nodes);
  if (fate == NodeFate::kGone) {
    return {.lost = launcher->name + " is lost with its node " + launcher->node, .again = {}};
  }
  if (fate == NodeFate::kNotReady && !ManyUnreachable(input.observed).empty()) return {};
  const bool asked = input.launcher && input.launcher->pod_uid == launcher->uid;
  if (asked && HasAnswered(input)) {
    if (!input.launcher->unheard_since) return {};
    const auto left = *input.launcher->unheard_since + kLauncherSilenceLimit - input.now;
    if (left.count() > 0) {
      return {.lost = {}, .again = std::chrono::ceil<std::chrono::milliseconds>(left)};
    }
    if (input.launcher->unheard_times < kLeastUnanswered) return {};  // the next failure is news
    return {.lost = who + " has not answered the operator for " +
                    std::to_string(kLauncherSilenceLimit.count()) + " s",
            .again = {}};
  }
  const bool silent =
      asked ? input.launcher->unheard_times >= kLeastUnanswered : launcher->ip.empty();
  if (fate == NodeFate::kNotReady && silent) {
    return {.lost = who + ", has never answered the operator", .again = {}};
  }
  return {};
}

}  // namespace ringmaster::job
