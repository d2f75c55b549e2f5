#pragma once

// ringmaster-agent: PID 1 of a worker Pod. Reads its environment, then runs one thread until the
// job ends (exit code 0), it is told to go (143), a GPU of its ranks is broken (76), or it cannot
// work at all (1); of the last two the reason is in the termination message.

namespace ringmaster::agent {

// Returns the exit code.
int Main(int argc, char** argv);

}  // namespace ringmaster::agent
