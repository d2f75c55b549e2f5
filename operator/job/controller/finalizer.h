#pragma once

// Adds the operator's finalizer to a job or removes it, and preserves other finalizers: it reads
// the list of finalizers right before the write, which fails if the list changed in between.

#include <string>

#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/kube/kube_client.h"

namespace ringmaster::job {

// The job's resourceVersion before and after the write. Both are empty if the job does not exist.
struct FinalizerWrite {
  std::string before{};
  std::string after{};
};

// Returns kConflict if another client changed the job first, or if the job was replaced.
Result<FinalizerWrite> WriteFinalizer(kube::KubeClient& client, const api::TrainingJob& job,
                                      bool held);

}  // namespace ringmaster::job
