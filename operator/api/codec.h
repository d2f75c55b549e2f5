#pragma once

// Converts TrainingJobs between JSON and types.h. Reading treats absent and null fields as the
// CRD's defaults and is strict about types. The API server has already validated the schema, so an
// error means that the cluster has another version of the CRD.

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "operator/api/types.h"

namespace ringmaster::api {

// kInvalid names the invalid field. Texts of the spec that are not needed at present, or that
// exceed kMaxTextBytes together, are omitted (TrainingJobSpec::texts).
Result<TrainingJob> DecodeTrainingJob(const nlohmann::json& object);
// The same; a job that names no image has `default_image`.
Result<TrainingJob> DecodeTrainingJobWithImage(const nlohmann::json& object,
                                               const std::string& default_image);

// Metadata and status alone, of a job whose spec may be of a version that is not ours.
Result<TrainingJob> DecodeWithoutSpec(const nlohmann::json& object);

// The part of a spec that is fixed during a run, in the form of a TrainingJob: all fields that
// affect its Pods and its world, except for the number of workers, suspension, time limits and the
// profile. Equal specs give equal documents.
nlohmann::json EncodeRunSpec(const TrainingJobSpec& spec);

// The reverse; everything else has its defaults. kInvalid names the field that is wrong.
Result<TrainingJobSpec> DecodeRunSpec(const nlohmann::json& run_spec);

// `today` with the text of its run in place of its own: numbers of workers, suspension, clocks,
// what becomes of checkpoints and the profile are today's.
TrainingJobSpec SpecOfRun(const TrainingJobSpec& run, const TrainingJobSpec& today);

// Only what is set: empty strings and unknown values are left out.
nlohmann::json EncodeStatus(const TrainingJobStatus& status);

const char* ToString(ConditionStatus status);

}  // namespace ringmaster::api
