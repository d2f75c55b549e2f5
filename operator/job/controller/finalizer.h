#pragma once

// Puts the operator's finalizer on a job, or takes it off. Other finalizers stay: the list is read
// right before it is written, and a change in between refuses the write.

#include <string>

#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/kube/kube_client.h"

namespace ringmaster::job {

// The job's resourceVersion right before and after the write; both empty where the job is gone.
struct FinalizerWrite {
  std::string before{};
  std::string after{};
};

// kConflict: somebody else changed the job first, or it is another one by now.
Result<FinalizerWrite> WriteFinalizer(kube::KubeClient& client, const api::TrainingJob& job,
                                      bool held);

}  // namespace ringmaster::job
