#pragma once

// The text of a job's run: what its Pods are made from, from the first one until the job is
// suspended or has ended (ADR 163). It is kept in a ControllerRevision of the job,
// whose data the API server lets nobody change; one name, so that only one text can be the first.
// Its content is as untrusted as any spec: anyone who puts another one there gets judged Pods,
// under a profile of the job's namespace. Values and pure functions; the actor writes the object,
// the reconciler reads it.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/job/model/job_memory.h"

namespace ringmaster::job {

// Names a run spec (api::EncodeRunSpec) by its content; a label's value.
std::string RevisionOf(const nlohmann::json& run_spec);

// Beside the run spec it has the run's profile and tools image (empty: none) and the names of the
// job's typed fields, for messages.
nlohmann::json RunPinManifest(const api::TrainingJob& job, const std::string& profile,
                              const std::string& tools_image, const nlohmann::json& run_spec);

// kInvalid when the object holds no run spec.
Result<RunPin> ReadRunPin(const nlohmann::json& object);

}  // namespace ringmaster::job
