#pragma once

// Whether the state of a job's training is kept, and with what it began: its conditions Protected
// and Restored, from what its launcher reports. Pure.

#include <optional>
#include <vector>

#include "common/control/launcher_api.h"
#include "operator/api/types.h"

namespace ringmaster::job {

// Protected. `known`: the job has this condition. None: there is nothing to say of a job that
// always could keep what it wants to.
std::optional<api::Condition> JudgeProtection(const std::vector<control::ProtectionFault>& faults,
                                              bool known);

// Restored. None: the launcher says nothing about it.
std::optional<api::Condition> JudgeBeginning(const std::optional<control::Beginning>& beginning);

}  // namespace ringmaster::job
