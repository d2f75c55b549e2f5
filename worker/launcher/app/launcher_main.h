#pragma once

// The program ringmaster-launcher: one per job, in its own Pod. Its environment contains its whole
// configuration (common/control/pod_contract.h).

namespace ringmaster::launcher {

// Returns the exit code.
int Main(int argc, char** argv);

}  // namespace ringmaster::launcher
