#pragma once

// Sets the conditions Protected and Restored from the launcher's reports: whether the training
// state is saved, and from which state training started. Pure functions.

#include <optional>
#include <vector>

#include "common/control/launcher_api.h"
#include "operator/api/types.h"

namespace ringmaster::job {

// Protected. `known`: the job has this condition. Returns none for a job that could always save its
// state.
std::optional<api::Condition> JudgeProtection(const std::vector<control::ProtectionFault>& faults,
                                              bool known);

// Restored. Returns none if the launcher does not report it.
std::optional<api::Condition> JudgeBeginning(const std::optional<control::Beginning>& beginning);

}  // namespace ringmaster::job
