#pragma once

// Converts TrainingJobs between JSON and the structs of types.h. The decoder gives absent and null
// fields the CRD's defaults, and rejects values of the wrong type. The API server has already
// validated the schema, so an error means that the cluster has another version of the CRD.

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "operator/api/types.h"

namespace ringmaster::api {

// Returns kInvalid, with the name of the field, if a field is invalid. Omits the texts of the spec
// if the job does not need them now, or if together they exceed kMaxTextBytes (see Texts).
Result<TrainingJob> DecodeTrainingJob(const nlohmann::json& object);
// Like DecodeTrainingJob(), but uses `default_image` for a job without an image.
Result<TrainingJob> DecodeTrainingJobWithImage(const nlohmann::json& object,
                                               const std::string& default_image);

// Decodes only the metadata and the status. Use it for jobs whose spec may have another version.
Result<TrainingJob> DecodeWithoutSpec(const nlohmann::json& object);

// Encodes the fields of a spec that are fixed during a run, in the form of a TrainingJob: all
// fields that affect its Pods and its world, except for the number of workers, suspension, time
// limits and the profile. Equal specs give equal documents.
nlohmann::json EncodeRunSpec(const TrainingJobSpec& spec);

// Decodes EncodeRunSpec()'s result; other fields get defaults. An error names the invalid field.
Result<TrainingJobSpec> DecodeRunSpec(const nlohmann::json& run_spec);

// Returns the spec of a run, with the fields that may change during the run taken from `today`: the
// numbers of workers, suspension, time limits, the deletion of checkpoints and the profile.
TrainingJobSpec SpecOfRun(const TrainingJobSpec& run, const TrainingJobSpec& today);

// Encodes the fields of a status that are set. Omits empty strings and unknown values.
nlohmann::json EncodeStatus(const TrainingJobStatus& status);

const char* ToString(ConditionStatus status);

}  // namespace ringmaster::api
