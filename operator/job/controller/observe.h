#pragma once

// Collects a job's objects from the stores (observed.h). An object belongs to the job if its
// controlling owner has the job's UID. Objects of earlier jobs are ignored, but not their names.

#include <set>
#include <string>

#include "operator/api/types.h"
#include "operator/job/admission/profile.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/views.h"
#include "operator/runtime/store.h"

namespace ringmaster::job {

using JobStore = runtime::Store<api::TrainingJob>;
using PodStore = runtime::Store<PodView>;
using ServiceStore = runtime::Store<ServiceView>;
using NodeStore = runtime::Store<NodeView>;
using ProfileStore = runtime::Store<Profile>;
using NamespaceStore = runtime::Store<NamespaceView>;
using LocalProfileStore = runtime::Store<LocalProfileView>;

// The stores to read from. All of them must outlive the call.
struct Stores {
  const PodStore& pods;
  const ServiceStore& services;
  const NodeStore& nodes;
};

// Returns a job's objects. `revision`: the revision of the spec of the run's Pods; empty: any.
// `taken_names`: names of existing Pods that the store does not show, found by failed creates.
Observed Observe(const api::TrainingJob& job, const Stores& stores, const std::string& revision,
                 const std::set<std::string>& taken_names);

}  // namespace ringmaster::job
