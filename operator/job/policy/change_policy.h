#pragma once

// Detects which fields of a spec changed while the job runs, and describes them. A job's Pods are
// created from one spec until it is suspended (RunPin in model/job_memory.h). Pure functions; the
// reconciler compares the specs, and every plan reports the result.

#include <optional>
#include <string>
#include <vector>

#include "operator/api/types.h"

namespace ringmaster::job {

// The differences between two specs in what a run fixes, as field paths
// ("spec.worker.template.spec"); at most a handful, problems of `today` first. Empty if there are
// none. `pinned`: the spec that the run's Pods are created from.
std::vector<std::string> ChangedFields(const api::TrainingJobSpec& pinned,
                                       const api::TrainingJobSpec& today);

// Condition ChangePending. `changed`: fields of the job's spec that differ from what its run is
// made from. Returns none for a job whose spec never changed.
std::optional<api::Condition> NoticeOfChange(const std::vector<std::string>& changed,
                                             const api::TrainingJobStatus& status);

}  // namespace ringmaster::job
