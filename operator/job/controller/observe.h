#pragma once

// Collects a job's objects from the stores (observed.h). The controlling owner of a job's object
// has the job's UID; objects of an earlier job with the same name only occupy names.

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

// What is observed; all outlive the call.
struct Stores {
  const PodStore& pods;
  const ServiceStore& services;
  const NodeStore& nodes;
};

// `revision`: of the text that the job's Pods are made from; empty: any. `taken_names`: Pod names
// that a create found occupied by something the store does not show.
Observed Observe(const api::TrainingJob& job, const Stores& stores, const std::string& revision,
                 const std::set<std::string>& taken_names);

}  // namespace ringmaster::job
