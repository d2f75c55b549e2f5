#pragma once

// The program ringmaster-attach, which mpirun starts once per slot. See attach.h.

namespace ringmaster::agent {

// Returns the exit code.
int AttachMain(int argc, char** argv);

}  // namespace ringmaster::agent
