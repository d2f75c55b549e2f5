#include "operator/job/planner/isolation_plan.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ringmaster::job {

// Workers on the host network connect to the launcher from the addresses of their nodes. If the
// operator may not read Nodes, it knows only one of these, the Pod's address.
void PlanIsolation(const PlanInput& input, bool may_create, Plan& plan) {
  if (!input.network_policies) return;
  // Check the policies of existing Pods. If the plan creates Pods, it creates the policies, too.
  const auto due = IsolationCheckDue(input.memory.isolation, input.now);
  plan.isolate = due.count() == 0 && input.observed.launcher_service != nullptr &&
                 !plan.CreatesPods() && may_create;
  if (due.count() > 0) plan.RequeueWithin(due);
  // If another installation managed the job before, the policies may admit its operator.
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
