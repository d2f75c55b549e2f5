#include "operator/job/manifests/network_policies.h"

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "operator/api/names.h"
#include "operator/job/manifests/manifests.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

json Policy(const api::TrainingJob& job, const std::string& name, json pod_labels, json ingress) {
  json policy{{"apiVersion", "networking.k8s.io/v1"},
              {"kind", "NetworkPolicy"},
              {"metadata", {{"name", name}}},
              {"spec",
               {{"podSelector", {{"matchLabels", std::move(pod_labels)}}},
                {"policyTypes", json::array({"Ingress"})},
                {"ingress", std::move(ingress)}}}};
  Own(policy, job);
  return policy;
}

// Admits the operator's Pods by the chart's labels, which do not depend on the release's name.
json OperatorAtItsPort(const std::string& operator_ns) {
  return {
      {"from", json::array({{{"namespaceSelector",
                              {{"matchLabels", {{"kubernetes.io/metadata.name", operator_ns}}}}},
                             {"podSelector",
                              {{"matchLabels",
                                {{"app.kubernetes.io/name", "ringmaster"},
                                 {"app.kubernetes.io/component", "operator"}}}}}}})},
      {"ports", json::array({{{"protocol", "TCP"}, {"port", control::kApiPort}}})}};
}

}  // namespace

json JobNetworkPolicy(const api::TrainingJob& job) {
  json pods{{api::kLabelJobUid, job.uid}};
  json peers = json::array({{{"podSelector", {{"matchLabels", pods}}}}});
  if (job.spec.host_network) pods[api::kLabelRole] = api::kRoleLauncher;
  return Policy(job, api::JobNetworkPolicyName(job.name, job.uid), std::move(pods),
                json::array({{{"from", std::move(peers)}}}));
}

json LauncherNetworkPolicy(const api::TrainingJob& job, const std::string& operator_ns,
                           const std::vector<std::string>& addresses) {
  json ingress = json::array({OperatorAtItsPort(operator_ns)});
  json nodes = json::array();
  for (const std::string& address : addresses) {
    const char* bits = address.find(':') == std::string::npos ? "/32" : "/128";
    nodes.push_back({{"ipBlock", {{"cidr", address + bits}}}});
  }
  // Admit the nodes to all ports, because mpirun listens on a port that the kernel chooses.
  if (!nodes.empty()) ingress.push_back({{"from", std::move(nodes)}});
  return Policy(job, api::LauncherNetworkPolicyName(job.name, job.uid),
                {{api::kLabelJobUid, job.uid}, {api::kLabelRole, api::kRoleLauncher}},
                std::move(ingress));
}

}  // namespace ringmaster::job
