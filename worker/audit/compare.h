#pragma once

// Compares the parameters of two runs after every step: a job with faults, and a replay of its
// memberships without faults.

#include "worker/audit/audit.h"

namespace ringmaster::audit {

// Compares the checksums after each step. Different checksums, different initial states, and steps
// that only one run has count as disagreeing. Steps for which a run has no checksum count as
// unknown.
Findings Compare(const Report& job, const Report& other);

}  // namespace ringmaster::audit
