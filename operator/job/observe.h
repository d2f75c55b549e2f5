#pragma once

// The stores' content as one job sees it: its children in named buckets, decided once, before any
// policy looks at them. Children are those whose controlling owner is this job's UID; a
// predecessor's of the same name only make names taken.

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "operator/api/types.h"
#include "operator/job/views.h"
#include "operator/runtime/store.h"

namespace ringmaster::job {

using PodStore = runtime::Store<PodView>;
using ServiceStore = runtime::Store<ServiceView>;
using PodPtr = std::shared_ptr<const PodView>;
using ServicePtr = std::shared_ptr<const ServiceView>;

struct Observed {
  PodPtr launcher;                    // of status.launcherTerm; null when it does not exist
  std::vector<PodPtr> old_launchers;  // of other terms
  int64_t next_term = 1;              // the lowest above status.launcherTerm whose Pod name is free

  // Workers, each in one bucket, ordered by index.
  std::vector<PodPtr> live;       // neither ended nor being deleted
  std::vector<PodPtr> completed;  // ended with success, not being deleted
  std::vector<PodPtr> failed;     // ended otherwise, not being deleted
  std::vector<PodPtr> deleting;

  std::vector<int>
      free_indices;  // the lowest whose Pod name nobody has, spec.worker.replicas of them

  ServicePtr worker_service;  // null when missing or not ours
  ServicePtr launcher_service;
};

// `taken_names`: Pod names that a create found occupied by something the store does not show.
Observed Observe(const api::TrainingJob& job, const PodStore& pods, const ServiceStore& services,
                 const std::set<std::string>& taken_names);

}  // namespace ringmaster::job
