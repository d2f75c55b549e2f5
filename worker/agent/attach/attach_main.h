#pragma once

// ringmaster-attach: one per slot, started by mpirun. See attach.h.

namespace ringmaster::agent {

// Returns the exit code.
int AttachMain(int argc, char** argv);

}  // namespace ringmaster::agent
