#pragma once

// Builds the manifest of the Pod that removes a deleted job's checkpoints. It uses the worker's
// image and user and mounts only the checkpoint volume. Pure functions.

#include <chrono>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/admission/judgement.h"
#include "operator/job/manifests/injection.h"

namespace ringmaster::job {

inline constexpr std::chrono::seconds kRemovalPodLimit{300};

// Builds the Pod. REQUIRES: the job has spec.checkpoint. The Pod has no owner reference to the job,
// because a foreground deletion of the job would also delete the Pod.
nlohmann::json RemovalPod(const JudgedJob& judged, const Injection& injection);

}  // namespace ringmaster::job
