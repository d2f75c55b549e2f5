#pragma once

// Which jobs a change of a Node concerns: those with a Pod there, and only when something changed
// that a plan reads. Nodes report every few minutes although nothing happened. Called by the
// listener of the Node store.

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
