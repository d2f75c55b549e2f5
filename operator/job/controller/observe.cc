#include "operator/job/controller/observe.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "operator/api/names.h"
#include "operator/kube/resource.h"

namespace ringmaster::job {

namespace {

bool IsOf(const PodView& pod, const std::string& revision) {
  return revision.empty() || pod.revision == revision;
}

void SortWorker(PodPtr pod, const std::string& revision, Observed& observed) {
  if (pod->deleting) {
    observed.deleting.push_back(std::move(pod));
  } else if (!IsOf(*pod, revision)) {
    observed.of_other_text.push_back(std::move(pod));
  } else if (pod->Completed()) {
    observed.completed.push_back(std::move(pod));
  } else if (pod->Ended()) {
    observed.failed.push_back(std::move(pod));
  } else {
    observed.live.push_back(std::move(pod));
  }
}

void SortPods(const api::TrainingJob& job, const PodStore& pods, const std::string& revision,
              Observed& observed) {
  for (PodPtr& pod : pods.ByOwner(job.ns, job.uid)) {
    if (pod->role == Role::kLauncher) {
      // The Pod of the first term may exist before the status contains the term.
      const int64_t present = std::max<int64_t>(1, job.status.launcher_term);
      if (pod->term == present && IsOf(*pod, revision)) {
        observed.launcher = std::move(pod);
      } else {
        observed.old_launchers.push_back(std::move(pod));
      }
    } else if (pod->role == Role::kWorker) {
      SortWorker(std::move(pod), revision, observed);
    }
  }
  for (auto* bucket : {&observed.live, &observed.completed, &observed.failed, &observed.deleting,
                       &observed.of_other_text}) {
    std::sort(bucket->begin(), bucket->end(),
              [](const PodPtr& a, const PodPtr& b) { return a->index < b->index; });
  }
}

ServicePtr OwnService(const api::TrainingJob& job, const ServiceStore& services,
                      const std::string& name) {
  ServicePtr service = services.Get(kube::ObjectKey(job.ns, name));
  return service != nullptr && service->owner_uid == job.uid ? service : nullptr;
}

void FindNodes(const NodeStore& nodes, Observed& observed) {
  NodesSeen& seen = observed.nodes;
  seen.known = nodes.Synced();
  bool trouble = false;
  bool unschedulable = false;
  const auto add = [&](const PodPtr& pod) {
    unschedulable = unschedulable || (pod != nullptr && !pod->unschedulable.empty());
    if (pod == nullptr || pod->node.empty() || seen.of_job.contains(pod->node)) return;
    NodePtr node = nodes.Get(pod->node);
    if (node == nullptr) return;
    trouble = trouble || !node->ready;
    seen.of_job[pod->node] = std::move(node);
  };
  add(observed.launcher);
  observed.ForEachWorker(add);
  if (!trouble && !unschedulable) return;
  for (const NodePtr& node : nodes.List()) {
    if (trouble) {
      ++seen.total;
      seen.not_ready += node->ready ? 0 : 1;
    }
    if (!unschedulable) continue;
    for (const auto& [resource, amount] : node->extended_resources) {
      int64_t& largest = seen.largest[resource];
      largest = std::max(largest, amount);
    }
  }
}

}  // namespace

Observed Observe(const api::TrainingJob& job, const Stores& stores, const std::string& revision,
                 const std::set<std::string>& taken_names) {
  const PodStore& pods = stores.pods;
  Observed observed;
  SortPods(job, pods, revision, observed);
  FindNodes(stores.nodes, observed);
  const auto taken = [&](const std::string& name) {
    return taken_names.contains(name) || pods.Get(kube::ObjectKey(job.ns, name)) != nullptr;
  };
  observed.next_term = job.status.launcher_term + 1;
  while (taken(api::LauncherPodName(job.name, observed.next_term))) ++observed.next_term;
  // This job's worker with the index does not count: a create accepts the existing Pod.
  observed.name_taken = [&pods, taken_names, ns = job.ns, name = job.name,
                         uid = job.uid](int index) {
    const std::string pod_name = api::WorkerPodName(name, index);
    const PodPtr pod = pods.Get(kube::ObjectKey(ns, pod_name));
    const bool others = pod != nullptr && (pod->owner_uid != uid || pod->index != index);
    return others || taken_names.contains(pod_name);
  };
  observed.worker_service = OwnService(job, stores.services, api::WorkerServiceName(job.name));
  observed.launcher_service = OwnService(job, stores.services, api::LauncherServiceName(job.name));
  return observed;
}

}  // namespace ringmaster::job
