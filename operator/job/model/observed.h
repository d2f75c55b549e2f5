#pragma once

// A job's objects, sorted into named buckets before any policy runs: its Pods, its Services
// and the nodes of its Pods. Plain values, created by observe.h, read by plans and
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

// Pods that one plan creates, or deletes, at most: the rest is left to the next one, at once. So a
// job of thousands is looked at every few seconds, and its requests take turns with other jobs'.
inline constexpr std::size_t kMostPodsAtOnce = 1000;

// What is known about the nodes of a job.
struct NodesSeen {
  bool known =
      false;  // false where Nodes cannot be watched: nothing may be concluded from `of_job`
  std::map<std::string, NodePtr> of_job;  // those that exist of its Pods', by name
  // For the whole cluster; counted only where a node of this job is not ready.
  int total = 0;
  int not_ready = 0;
};

struct Observed {
  PodPtr launcher;                    // of status.launcher_term; null when it does not exist
  std::vector<PodPtr> old_launchers;  // of other terms, or made from another text
  int64_t next_term = 1;  // the lowest above status.launcher_term whose Pod name is free

  // Workers, each in one bucket, ordered by index.
  std::vector<PodPtr> live;       // neither ended nor being deleted
  std::vector<PodPtr> completed;  // ended with success, not being deleted
  std::vector<PodPtr> failed;     // ended otherwise, not being deleted
  std::vector<PodPtr> deleting;
  // Made from another text than the run's (run_pin.h), not being deleted: none of them takes part.
  std::vector<PodPtr> of_other_text;

  // Something else than a worker of this job has the Pod name of this index. Only a plan that
  // creates workers asks, as the name is looked up in the store, which must still exist.
  std::function<bool(int index)> name_taken = [](int) { return false; };

  ServicePtr worker_service;  // null when missing or not ours
  ServicePtr launcher_service;
  NodesSeen nodes;

  // For new workers: the lowest indices whose Pod name is free.
  std::vector<int> FreeIndices(std::size_t count) const;

  // All Pods of the job that are not being deleted: workers, then launchers.
  std::vector<PodPtr> PodsToDelete() const;

  // visit(const PodPtr&) for every worker, bucket by bucket.
  template <typename Visit>
  void ForEachWorker(Visit visit) const {
    for (const auto* bucket : {&live, &completed, &failed, &deleting, &of_other_text}) {
      for (const PodPtr& worker : *bucket) visit(worker);
    }
  }
};

}  // namespace ringmaster::job
