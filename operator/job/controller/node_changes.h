#pragma once

// Computes which jobs a change of a Node affects: those with a Pod on it, and only if the change
// matters to a plan. Kubelets update their Nodes every few minutes even without changes. Called by
// the listener of the Node store.

#include <map>
#include <string>
#include <vector>

#include "operator/job/controller/observe.h"

namespace ringmaster::job {

// Not thread-safe: only the thread of the Nodes' reflector uses it.
class NodeChanges {
 public:
  // All arguments must outlive the NodeChanges.
  NodeChanges(const NodeStore& nodes, const PodStore& pods, const JobStore& jobs)
      : nodes_(nodes), pods_(pods), jobs_(jobs) {}

  // Returns the keys of the jobs to reconcile after the store contains a change of Node `name`.
  std::vector<std::string> JobsToLookAt(const std::string& name);

 private:
  const NodeStore& nodes_;
  const PodStore& pods_;
  const JobStore& jobs_;
  std::map<std::string, NodeView> last_;  // the last reported state, by Node name
};

}  // namespace ringmaster::job
