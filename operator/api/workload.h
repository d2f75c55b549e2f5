#pragma once

// The workload of a TrainingProfile (spec.workload): the part of a TrainingJob's spec that the
// profile sets, and how to merge it with a job's spec. Both are merged after decoding, when typed
// fields are part of the templates (typed_fields.h), so items of worker.env and worker.template end
// up in one list. Pure functions.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "operator/api/types.h"

namespace ringmaster::api {

struct Workload {
  TrainingJobSpec spec{};  // what it sets, and defaults elsewhere
  std::string text{};      // the same as a run spec (codec.h); empty: it sets nothing
  std::vector<std::string> overridable{};  // paths below `spec` where the job's own value counts
};

// `written`: the JSON of spec.workload. kInvalid names the field that is wrong.
Result<Workload> DecodeWorkload(const nlohmann::json& written,
                                const std::vector<std::string>& overridable);

// What a run of the job is made from: maps are merged by key, containers, variables, volumes and
// claims by name, mounts by path; tolerations, sources of variables (envFrom) and passed variables
// are joined; any other list is one value. Where both set one value, the workload's counts, or the
// job's where the workload lists the path as overridable. Variables and init containers of the
// workload come first, as the kubelet takes them in their order. What no run keeps is the job's.
// What goes wrong is one of the spec's problems.
// REQUIRES: the job has all of its texts.
TrainingJobSpec MergeWorkload(const TrainingJobSpec& job, const Workload& workload);

}  // namespace ringmaster::api
