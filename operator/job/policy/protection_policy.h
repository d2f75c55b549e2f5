#pragma once

// Sets the conditions Protected and Restored from the launcher's reports: whether the training
// state is saved, and from which state training started. Pure functions.

#include <optional>
#include <vector>

#include "common/control/launcher_api.h"
#include "operator/api/types.h"

namespace ringmaster::job {

// Returns true if one of the faults is that new checkpoints fail.
bool CheckpointsFail(const std::vector<control::ProtectionFault>& faults);

// Returns the condition Protected, or nothing for a job that could always save its state. `known`:
// whether the job has this condition.
std::optional<api::Condition> JudgeProtection(const std::vector<control::ProtectionFault>& faults,
                                              bool known);

// Returns the condition Restored, or nothing if the launcher does not report a start.
std::optional<api::Condition> JudgeRestored(const std::optional<control::Beginning>& beginning);

}  // namespace ringmaster::job
