#include "operator/job/loss_policy.h"

#include <optional>
#include <set>
#include <utility>

#include "operator/api/names.h"
#include "operator/job/node_policy.h"

namespace ringmaster::job {

namespace {

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
  if (fate == NodeFate::kNotReady && reports.current() && !heard) {
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

std::vector<std::string> CertainlyDead(const PlanInput& input, const std::vector<PodPtr>& kept) {
  const Observed& seen = input.observed;
  std::set<std::string> dead;
  for (const auto* bucket : {&seen.live, &seen.completed, &seen.failed, &seen.deleting}) {
    for (const PodPtr& pod : *bucket) {
      const bool node_gone = FateOfNode(*pod, seen.nodes, input.memory) == NodeFate::kGone;
      if (pod->container.terminated || node_gone) dead.insert(pod->uid);
    }
  }
  for (const PodPtr& pod : kept) dead.erase(pod->uid);
  for (const GoneWorker& worker : input.memory.gone) dead.insert(worker.pod_uid);
  return {dead.begin(), dead.end()};
}

}  // namespace ringmaster::job
