#pragma once

// Compares the parameters of two runs after every step: a job with faults, and a replay of its
// memberships without them.

#include "worker/audit/audit.h"

namespace ringmaster::audit {

// Counts the steps after which the checksums differ, and one for another initial state, as
// disagreeing; as unknown those for which either has none. A step that only one run has counts as
// disagreeing.
Findings Compare(const Report& job, const Report& other);

}  // namespace ringmaster::audit
