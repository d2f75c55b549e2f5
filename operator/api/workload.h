#pragma once

// The workload of a TrainingProfile (spec.workload): the part of a TrainingJob's spec that the
// profile sets, and the function that merges it with a job's spec. Both specs are merged after
// decoding, when typed fields are part of the templates (typed_fields.h), so items of worker.env
// and worker.template are in one list. Pure functions.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "operator/api/types.h"

namespace ringmaster::api {

struct Workload {
  TrainingJobSpec spec{};  // the values that the profile sets; other fields have defaults
  std::string text{};      // `spec` as a run spec (codec.h); empty: `spec` sets no fields
  std::vector<std::string> overridable{};  // paths below `spec` where the job's values apply
};

// Decodes `written`, the JSON of spec.workload. Returns kInvalid with the name of an invalid field.
Result<Workload> DecodeWorkload(const nlohmann::json& written,
                                const std::vector<std::string>& overridable);

// Returns the spec of a run: maps are merged by key; containers, variables, volumes and claims by
// name; mounts by path; tolerations, envFrom sources and passed variables are concatenated; any
// other list is taken as a whole. If both set a value, the workload's value applies, or the job's
// value if the workload lists the path as overridable. Variables and init containers of the
// workload come first, because the kubelet processes them in order. Fields that may change during a
// run come from the job. Errors are added to the problems of the spec. REQUIRES: the job has all of
// its texts.
TrainingJobSpec MergeWorkload(const TrainingJobSpec& job, const Workload& workload);

}  // namespace ringmaster::api
