#pragma once

// The program ringmaster-rsh, which mpirun starts for each host. See rsh.h.

namespace ringmaster::launcher {

// Returns the exit code.
int RshMain(int argc, char** argv);

}  // namespace ringmaster::launcher
