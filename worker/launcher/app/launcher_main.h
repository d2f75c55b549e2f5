#pragma once

// The program ringmaster-launcher. Each job has one launcher, in a separate Pod. Its environment
// contains its whole configuration (common/control/pod_contract.h).

namespace ringmaster::launcher {

// Returns the exit code.
int Main(int argc, char** argv);

}  // namespace ringmaster::launcher
