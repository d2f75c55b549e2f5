#pragma once

// Evaluates the nodes of a job's Pods. A worker that is connected to its launcher is kept even if
// its node is not ready. Other workers are replaced earlier than Kubernetes would evict them (after
// five minutes). If many nodes become not ready together, the cause is more likely the network or
// the control plane, so no worker is replaced. Pure functions.

#include <set>
#include <string>

#include "operator/job/model/observed.h"

namespace ringmaster::job {

enum class NodeFate {
  kFine,      // ready, or unknown
  kNotReady,  // its kubelet reports that it is not ready, or does not report
  kGone       // the Node object was deleted or has the taint out-of-service
};

// `known`: the nodes that existed before (JobMemory::nodes).
NodeFate FateOfNode(const PodView& pod, const NodesSeen& nodes, const std::set<std::string>& known);

// Returns a sentence if nodes that are not ready must be ignored: at least two, and more than half,
// of the cluster's nodes or the job's worker nodes are not ready. Otherwise returns an empty text.
std::string ManyUnreachable(const Observed& observed);

// Returns "on node X", "on node X, which is being drained" and so on, for sentences about a Pod.
// Empty if the Pod is not scheduled.
std::string WherePodRuns(const PodView& pod, const NodesSeen& nodes);

}  // namespace ringmaster::job
