#include "operator/job/policy/isolation_policy.h"

#include "operator/api/names.h"

namespace ringmaster::job {

std::optional<api::Condition> JudgeIsolation(const api::TrainingJobSpec& spec,
                                             bool network_policies,
                                             const std::optional<IsolationCheck>& latest) {
  api::Condition condition{.type = api::kNetworkIsolated, .status = api::ConditionStatus::kFalse};
  if (!network_policies) {
    condition.reason = api::kReasonPoliciesOff;
    condition.message =
        "the operator does not create NetworkPolicies (--job-network-policies=false); the job's "
        "connections are protected by keys, tokens and TLS only";
  } else if (spec.host_network) {
    condition.reason = api::kReasonHostNetwork;
    condition.message =
        "workers use the host network, which NetworkPolicies do not cover; the launcher admits "
        "their nodes, and keys, tokens and TLS protect the job's connections";
  } else if (!latest) {
    return std::nullopt;
  } else if (latest->isolated) {
    condition.status = api::ConditionStatus::kTrue;
    condition.reason = api::kReasonPoliciesCreated;
    condition.message =
        "only the job's Pods and the operator may connect to its Pods, if the cluster's network "
        "plugin enforces NetworkPolicies";
  } else {
    condition.reason = api::kReasonPoliciesMissing;
    condition.message =
        "access to the job's Pods is not restricted as intended: " + latest->why_not;
  }
  return condition;
}

}  // namespace ringmaster::job
