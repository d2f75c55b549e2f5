#pragma once

// Evaluates the nodes of a job's Pods. A node that is not ready never removes a worker that its
// launcher still hears; it only makes replacement faster than Kubernetes' five minutes. If many
// nodes become not ready together, the cause is more likely the network or the control plane, and
// nothing changes. Pure functions.

#include <string>

#include "operator/job/model/job_memory.h"
#include "operator/job/model/observed.h"

namespace ringmaster::job {

enum class NodeFate {
  kFine,      // ready, or unknown
  kNotReady,  // its kubelet is silent or reports it
  kGone       // the Node object was deleted, or a person tainted it out-of-service
};

NodeFate FateOfNode(const PodView& pod, const NodesSeen& nodes, const JobMemory& memory);

// Why nothing is done about nodes that are not ready, as a sentence: two or more, and more than
// half, of the cluster's or of the job's worker nodes are so at once. Empty when something may be.
std::string ManyUnreachable(const Observed& observed);

// "on node X", "on node X, which is being drained", ... for sentences about a Pod; empty before it
// is scheduled.
std::string WherePodRuns(const PodView& pod, const NodesSeen& nodes);

}  // namespace ringmaster::job
