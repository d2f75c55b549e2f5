#pragma once

// ringmaster-rsh: started by mpirun for each host. See rsh.h.

namespace ringmaster::launcher {

// Returns the exit code.
int RshMain(int argc, char** argv);

}  // namespace ringmaster::launcher
