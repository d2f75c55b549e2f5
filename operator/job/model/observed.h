#pragma once

// A job's objects: its Pods, its Services and the nodes of its Pods. Pods are sorted into buckets
// before any policy runs. Plain values, created by observe.h and read by plans and
// policies.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operator/job/model/views.h"

namespace ringmaster::job {

using PodPtr = std::shared_ptr<const PodView>;
using ServicePtr = std::shared_ptr<const ServiceView>;
using NodePtr = std::shared_ptr<const NodeView>;

// The maximum number of Pods that one plan creates or deletes; the next plan follows immediately. A
// job with thousands of Pods is thus reconciled every few seconds and does not block others.
inline constexpr std::size_t kMostPodsAtOnce = 1000;

// The nodes of a job's Pods.
struct NodesSeen {
  bool known =
      false;  // whether Nodes can be watched; if they cannot, `of_job` does not show missing nodes
  std::map<std::string, NodePtr> of_job;  // existing nodes of the job's Pods, by name
  // Numbers of nodes in the cluster; counted only if a node of this job is not ready.
  int total = 0;
  int not_ready = 0;
  // By extended resource, the most that a node of the cluster has; set only while a Pod of the job
  // cannot be scheduled.
  std::map<std::string, int64_t> largest;
};

struct Observed {
  PodPtr launcher;                    // the launcher of status.launcher_term; null: none
  std::vector<PodPtr> old_launchers;  // launchers of other terms, or created from another spec
  int64_t next_term = 1;  // the lowest term above status.launcher_term whose Pod name is free

  // Workers. Each worker is in exactly one bucket. Buckets are sorted by index.
  std::vector<PodPtr> live;       // have not ended and are not being deleted
  std::vector<PodPtr> completed;  // succeeded and are not being deleted
  std::vector<PodPtr> failed;     // failed and are not being deleted
  std::vector<PodPtr> deleting;
  // Unused workers: from another spec than the run's (run_pin.h), and not being deleted.
  std::vector<PodPtr> of_other_text;

  // Returns true if a Pod that is not a worker of this job has the Pod name of this index. Called
  // only by plans that create workers. It reads the store, which must still exist.
  std::function<bool(int index)> name_taken = [](int) { return false; };

  ServicePtr worker_service;  // the workers' Service; null if missing or not owned by the job
  ServicePtr launcher_service;
  NodesSeen nodes;

  // Returns the lowest indices whose Pod name is free, for new workers.
  std::vector<int> FreeIndices(std::size_t count) const;

  // Returns all Pods of the job that are not being deleted: first workers, then launchers.
  std::vector<PodPtr> PodsToDelete() const;

  // Calls visit(const PodPtr&) for every worker, bucket by bucket.
  template <typename Visit>
  void ForEachWorker(Visit visit) const {
    for (const auto* bucket : {&live, &completed, &failed, &deleting, &of_other_text}) {
      for (const PodPtr& worker : *bucket) visit(worker);
    }
  }
};

}  // namespace ringmaster::job
