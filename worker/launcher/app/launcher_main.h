#pragma once

// ringmaster-launcher: one per job, in its own Pod. Everything it needs to know is in its
// environment (common/control/pod_contract.h).

namespace ringmaster::launcher {

// Returns the exit code.
int Main(int argc, char** argv);

}  // namespace ringmaster::launcher
