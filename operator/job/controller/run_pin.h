#pragma once

// The spec of a job's run, from which the run's Pods are created until the job is suspended
// or ends (ADR 163). It is stored in a ControllerRevision of the job. The data of this object is
// immutable, and its fixed name ensures that only one can exist. The content is untrusted, like any
// spec, so Pods that are created from it are checked against a profile of the job's
// namespace. Plain values and pure functions. The actor writes the object, and the reconciler
// reads it.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/job/model/job_memory.h"

namespace ringmaster::job {

// Returns a hash of a run spec (api::EncodeRunSpec) that is a valid label value.
std::string RevisionOf(const nlohmann::json& run_spec);

// Returns the object's manifest. It has the run's spec, profile and tools image (empty: none),
// whether the run's image is the operator's default, and the job's typed fields for messages.
nlohmann::json RunPinManifest(const api::TrainingJob& job, const std::string& profile,
                              const std::string& tools_image, const nlohmann::json& run_spec);

// Returns kInvalid if the object does not contain a run spec.
Result<RunPin> ReadRunPin(const nlohmann::json& object);

}  // namespace ringmaster::job
