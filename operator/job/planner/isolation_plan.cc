#include "operator/job/planner/isolation_plan.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ringmaster::job {

// Workers on their nodes' network reach the launcher from there, once it is known where they are:
// their own address is one of the node's, and where nodes may not be read the only one known.
void PlanIsolation(const PlanInput& input, bool may_create, Plan& plan) {
  if (!input.network_policies) return;
  // New Pods create them; this is for the existing Pods of a job. It does not depend on the status.
  const auto due = IsolationCheckDue(input.memory, input.now);
  plan.isolate = due.count() == 0 && input.observed.launcher_service != nullptr &&
                 !plan.CreatesPods() && may_create;
  if (due.count() > 0) plan.RequeueWithin(due);
  // The job was adopted from an installation whose operator may be in another namespace.
  const std::string& before = input.job.status.installation;
  const bool adopted = !before.empty() && before != input.installation;
  if (!input.job.spec.host_network) {
    if (adopted) plan.admit_nodes.emplace();
    return;
  }
  std::set<std::string> addresses;
  for (const PodPtr& worker : input.observed.live) {
    if (!worker->ip.empty()) addresses.insert(worker->ip);
    const auto node = input.observed.nodes.of_job.find(worker->node);
    if (node == input.observed.nodes.of_job.end()) continue;
    addresses.insert(node->second->addresses.begin(), node->second->addresses.end());
  }
  std::vector<std::string> admitted(addresses.begin(), addresses.end());
  if (adopted || admitted != input.memory.admitted) plan.admit_nodes = std::move(admitted);
}

}  // namespace ringmaster::job
