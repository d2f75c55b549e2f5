#pragma once

// The stores' content as one job sees it (observed.h). Children are those whose controlling owner
// is this job's UID; a predecessor's of the same name only make names taken.

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
