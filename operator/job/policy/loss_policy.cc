#include "operator/job/policy/loss_policy.h"

#include <optional>
#include <set>
#include <utility>

#include "operator/api/names.h"
#include "operator/job/policy/node_policy.h"

namespace ringmaster::job {

namespace {

// After a launcher's first answer: agents of ranks that train on need so long to find it.
constexpr std::chrono::seconds kTimeToDial{5};

// Of a launcher that has only just begun, nobody can be said to be missing there.
std::chrono::milliseconds TimeToDialLeft(const PlanInput& input) {
  const Clock::Time since = input.launcher->answered_since.value_or(input.now);
  return std::chrono::ceil<std::chrono::milliseconds>(since + kTimeToDial - input.now);
}

bool KnowsItsWorkers(const PlanInput& input) {
  using Phase = control::LauncherPhase;
  const control::LauncherStatus* answer = AnswerOf(input);
  return answer != nullptr && answer->phase != Phase::kWaitingForOrder &&
         answer->phase != Phase::kWaitingForAgents && answer->phase != Phase::kAdopting &&
         TimeToDialLeft(input).count() <= 0;
}

std::optional<LostWorker> JudgeWorker(const PlanInput& input, const PodPtr& pod,
                                      const Reports& reports, bool hold) {
  const NodesSeen& nodes = input.observed.nodes;
  const std::string who = pod->name + " " + WherePodRuns(*pod, nodes);
  const NodeFate fate = FateOfNode(*pod, nodes, input.memory);
  if (fate == NodeFate::kGone) {
    return LostWorker{pod, api::kReasonNodeLost,
                      pod->name + " is lost with its node " + pod->node +
                          ", which was deleted or taken out of service"};
  }
  if (hold && fate == NodeFate::kNotReady) return std::nullopt;
  const control::WorkerReport* report = reports.Find(pod->uid);
  if (report != nullptr && report->lost) {
    return LostWorker{pod, api::kReasonWorkerLost, who + " is not heard any more"};
  }
  const bool heard = report != nullptr && report->ready;
  if (fate == NodeFate::kNotReady && reports.current() && !heard && KnowsItsWorkers(input)) {
    return LostWorker{pod, api::kReasonNodeNotReady, who + ", is not connected"};
  }
  return std::nullopt;
}

}  // namespace

std::vector<LostWorker> FindLost(const PlanInput& input, const Reports& reports) {
  const bool hold = !ManyUnreachable(input.observed).empty();
  std::vector<LostWorker> lost;
  for (const PodPtr& pod : input.observed.live) {
    if (auto found = JudgeWorker(input, pod, reports, hold)) lost.push_back(*std::move(found));
  }
  return lost;
}

std::optional<std::chrono::milliseconds> JudgeNodesAgainIn(const PlanInput& input) {
  if (input.observed.nodes.not_ready == 0 || AnswerOf(input) == nullptr) return std::nullopt;
  const auto left = TimeToDialLeft(input);
  return left.count() > 0 ? std::optional(left) : std::nullopt;
}

std::vector<std::string> MissingMembers(const PlanInput& input) {
  const control::LauncherStatus* answer = AnswerOf(input);
  if (answer == nullptr) return {};
  std::set<std::string_view> exist;
  input.observed.ForEachWorker([&](const PodPtr& pod) { exist.insert(pod->uid); });
  std::vector<std::string> missing;
  for (const control::WorkerReport& worker : answer->workers) {
    if (worker.member && !exist.contains(worker.pod_uid)) missing.push_back(worker.pod_uid);
  }
  return missing;
}

std::vector<std::string> CertainlyDead(const PlanInput& input, const std::vector<PodPtr>& kept) {
  const NodesSeen& nodes = input.observed.nodes;
  std::set<std::string> dead;
  input.observed.ForEachWorker([&](const PodPtr& pod) {
    const bool node_gone = FateOfNode(*pod, nodes, input.memory) == NodeFate::kGone;
    if (pod->container.terminated || node_gone) dead.insert(pod->uid);
  });
  for (const PodPtr& pod : kept) dead.erase(pod->uid);
  for (const std::string& uid : MissingMembers(input)) dead.insert(uid);
  for (const GoneWorker& worker : input.memory.gone) dead.insert(worker.pod_uid);
  return {dead.begin(), dead.end()};
}

}  // namespace ringmaster::job
