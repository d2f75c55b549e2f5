#pragma once

// Computes which jobs a change of a Node affects: those with a Pod on it, and only if the change
// matters to a plan. Nodes report every few minutes even without changes. Called by the listener of
// the Node store.

#include <map>
#include <string>
#include <vector>

#include "operator/job/controller/observe.h"

namespace ringmaster::job {

// One thread: that of the Nodes' reflector.
class NodeChanges {
 public:
  // All outlive it.
  NodeChanges(const NodeStore& nodes, const PodStore& pods, const JobStore& jobs)
      : nodes_(nodes), pods_(pods), jobs_(jobs) {}

  // Keys of the jobs to look at, after the store has taken in a change of the Node `name`.
  std::vector<std::string> JobsToLookAt(const std::string& name);

 private:
  const NodeStore& nodes_;
  const PodStore& pods_;
  const JobStore& jobs_;
  std::map<std::string, NodeView> last_;  // what was last reported, by name
};

}  // namespace ringmaster::job
