#pragma once

// Detects which fields of a spec changed while the job runs, and describes them. A job's Pods are
// created from one spec until it is suspended (RunPin in model/job_memory.h). Pure functions; the
// reconciler compares the specs, and every plan reports the result.

#include <optional>
#include <string>
#include <vector>

#include "operator/api/types.h"

namespace ringmaster::job {

// Returns the paths of the fields that differ in two specs, such as "spec.worker.template.spec".
// Compares only fields that are fixed during a run. Returns at most a few paths; if `today` has
// invalid fields, returns their paths. `pinned`: the spec from which the run's Pods are created.
std::vector<std::string> ChangedFields(const api::TrainingJobSpec& pinned,
                                       const api::TrainingJobSpec& today);

// Returns the condition ChangePending, or nothing for a job whose spec never changed. `changed`:
// the fields of the job's spec that differ from the spec of its run.
std::optional<api::Condition> NoticeOfChange(const std::vector<std::string>& changed,
                                             const api::TrainingJobStatus& status);

}  // namespace ringmaster::job
