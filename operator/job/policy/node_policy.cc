#include "operator/job/policy/node_policy.h"

#include <algorithm>

namespace ringmaster::job {

namespace {

bool TooMany(int not_ready, int total) { return not_ready >= 2 && 2 * not_ready > total; }

std::string NotReadyOf(int not_ready, int total, const char* which) {
  return std::to_string(not_ready) + " of " + std::to_string(total) + " " + which +
         " are not ready at once, which suggests a network problem: their workers are not replaced "
         "until the nodes are ready again or their Node objects are deleted";
}

}  // namespace

NodeFate FateOfNode(const PodView& pod, const NodesSeen& nodes,
                    const std::set<std::string>& known) {
  if (!nodes.known || pod.node.empty()) return NodeFate::kFine;
  const auto found = nodes.of_job.find(pod.node);
  if (found == nodes.of_job.end()) {
    // The operator may see a Pod before it sees the Pod's new node.
    return known.contains(pod.node) ? NodeFate::kGone : NodeFate::kFine;
  }
  if (found->second->out_of_service) return NodeFate::kGone;
  return found->second->ready ? NodeFate::kFine : NodeFate::kNotReady;
}

std::string ManyUnreachable(const Observed& observed) {
  const NodesSeen& nodes = observed.nodes;
  if (TooMany(nodes.not_ready, nodes.total)) {
    return NotReadyOf(nodes.not_ready, nodes.total, "nodes of the cluster");
  }
  const auto is_ready = [](const auto& node) { return node.second->ready; };
  if (std::ranges::all_of(nodes.of_job, is_ready)) return {};
  std::set<std::string> of_workers;
  int not_ready = 0;
  for (const PodPtr& worker : observed.live) {
    const auto found = nodes.of_job.find(worker->node);
    if (found == nodes.of_job.end() || !of_workers.insert(worker->node).second) continue;
    not_ready += found->second->ready ? 0 : 1;
  }
  const int total = static_cast<int>(of_workers.size());
  return TooMany(not_ready, total) ? NotReadyOf(not_ready, total, "nodes of this job's workers")
                                   : std::string();
}

std::string WherePodRuns(const PodView& pod, const NodesSeen& nodes) {
  if (pod.node.empty()) return {};
  std::string text = "on node " + pod.node;
  const auto found = nodes.of_job.find(pod.node);
  if (found == nodes.of_job.end()) return text;
  const NodeView& node = *found->second;
  if (!node.ready) return text + ", which is not ready (" + node.not_ready_reason + ")";
  return node.unschedulable ? text + ", which is being drained" : text;
}

}  // namespace ringmaster::job
