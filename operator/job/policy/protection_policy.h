#pragma once

// Sets the conditions Protected and Restored from the launcher's reports: whether the training
// state is saved, and from which state training started. Pure functions.

#include <optional>
#include <vector>

#include "common/control/launcher_api.h"
#include "operator/api/types.h"

namespace ringmaster::job {

// What cannot be saved or restored, the most serious first.
enum class FaultKind { kRestore, kCheckpoint, kCopy, kSnapshot };

// Returns the kind of a launcher's report; kSnapshot for a text that is not known.
FaultKind KindOf(const control::ProtectionFault& fault);

// Returns the condition Protected, or nothing for a job that could always save its state. `known`:
// whether the job has this condition.
std::optional<api::Condition> JudgeProtection(const std::vector<control::ProtectionFault>& faults,
                                              bool known);

// Returns the condition Restored, or nothing if the launcher does not report a start.
std::optional<api::Condition> JudgeRestored(const std::optional<control::Beginning>& beginning);

}  // namespace ringmaster::job
