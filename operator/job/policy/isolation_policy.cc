#include "operator/job/policy/isolation_policy.h"

#include "operator/api/names.h"

namespace ringmaster::job {

std::optional<api::Condition> JudgeIsolation(const api::TrainingJobSpec& spec,
                                             bool network_policies, const JobMemory& memory) {
  api::Condition condition{.type = api::kNetworkIsolated, .status = api::ConditionStatus::kFalse};
  if (!network_policies) {
    condition.reason = api::kReasonPoliciesOff;
    condition.message =
        "the operator makes no NetworkPolicies (--job-network-policies=false); keys, tokens and "
        "TLS alone protect the job's connections";
  } else if (spec.host_network) {
    condition.reason = api::kReasonHostNetwork;
    condition.message =
        "workers use their nodes' network, where no NetworkPolicy reaches them; the launcher "
        "admits those nodes, and keys, tokens and TLS protect the job's connections";
  } else if (memory.isolated) {
    condition.status = api::ConditionStatus::kTrue;
    condition.reason = api::kReasonPoliciesCreated;
    condition.message =
        "only the job's own Pods and the operator may connect to its Pods, where the cluster's "
        "network plugin enforces NetworkPolicies";
  } else if (!memory.not_isolated.empty()) {
    condition.reason = api::kReasonPoliciesMissing;
    condition.message =
        "who may connect to the job's Pods is not limited as it should be: " + memory.not_isolated;
  } else {
    return std::nullopt;
  }
  return condition;
}

}  // namespace ringmaster::job
