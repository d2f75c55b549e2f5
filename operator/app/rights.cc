#include "operator/app/rights.h"

#include <string>

#include "operator/api/names.h"
#include "operator/kube/resource.h"
#include "operator/runtime/token_access.h"

namespace ringmaster {
namespace {

constexpr char kNoLocalProfiles[] = "users cannot list the profiles of their namespaces";

}  // namespace

std::vector<runtime::AccessRule> NeededRights(const Config& config) {
  std::vector<runtime::AccessRule> rules;
  const auto add = [&](const kube::Resource& resource, std::initializer_list<const char*> verbs,
                       const std::string& subresource = {}) {
    for (const char* verb : verbs) {
      rules.push_back({.verb = verb,
                       .resource = resource,
                       .subresource = subresource,
                       .ns = config.watch_namespace});
    }
  };
  // spec.runPolicy's TTLs need delete; spec.checkpoint.onDelete's finalizer needs get and patch.
  add(kube::kTrainingJobs, {"get", "list", "watch", "patch", "delete"});
  add(kube::kTrainingJobs, {"patch"}, "status");
  add(kube::kTrainingJobs, {"update"}, "finalizers");  // for owner references that block deletion
  add(kube::kPods, {"get", "list", "watch", "create", "patch", "delete"});
  add(kube::kServices, {"get", "list", "watch", "create", "patch"});
  add(kube::kSecrets, {"create"});
  add(kube::kControllerRevisions, {"get", "create", "delete"});
  if (config.job_network_policies) add(kube::kNetworkPolicies, {"get", "create", "patch"});
  add(kube::kEvents, {"create", "patch"});
  rules.push_back({.verb = "list",
                   .resource = kube::kEvents,
                   .ns = config.watch_namespace,
                   .without = "conditions lack causes that only Pod events report"});
  for (const char* verb : {"list", "watch"}) {
    rules.push_back({.verb = verb,
                     .resource = kube::kNodes,
                     .without = "lost nodes are detected only by the silence of their workers"});
  }
  for (const char* verb : {"list", "watch", "create", "patch", "delete"}) {
    rules.push_back({.verb = verb,
                     .resource = kube::kLocalTrainingProfiles,
                     .ns = config.watch_namespace,
                     .without = kNoLocalProfiles});
  }
  if (config.watch_namespace.empty()) {
    for (const char* verb : {"list", "watch"}) {
      rules.push_back({.verb = verb, .resource = kube::kNamespaces, .without = kNoLocalProfiles});
    }
  }
  if (config.metrics_authorization) {
    for (const kube::Resource& review : {runtime::kTokenReviews, runtime::kSubjectAccessReviews}) {
      rules.push_back(
          {.verb = "create", .resource = review, .without = "clients cannot read /metrics"});
    }
  }
  for (const char* verb : {"list", "watch"}) {
    rules.push_back({.verb = verb, .resource = kube::kTrainingProfiles, .ns = config.ns});
  }
  rules.push_back(
      {.verb = "patch",
       .resource = kube::kTrainingProfiles,
       .subresource = "status",
       .ns = config.ns,
       .without = "TrainingProfiles have no status, and namespaces do not list new ones"});
  rules.push_back(
      {.verb = "get", .resource = kube::kSecrets, .ns = config.ns, .name = api::kKeyringName});
  rules.push_back({.verb = "create", .resource = kube::kSecrets, .ns = config.ns});
  if (!config.leader_elect) return rules;
  rules.push_back({.verb = "create", .resource = kube::kLeases, .ns = config.ns});
  for (const char* verb : {"get", "update"}) {
    rules.push_back(
        {.verb = verb, .resource = kube::kLeases, .ns = config.ns, .name = config.lease_name});
  }
  return rules;
}

}  // namespace ringmaster
