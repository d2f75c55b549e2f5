#pragma once

// The program ringmaster-agent, PID 1 of a worker Pod. It reads its environment and then runs one
// thread until the job ends (exit code 0), it gets SIGTERM (143), a GPU of its ranks fails (76), or
// it cannot run (1). In the last two cases the termination message contains the reason.

namespace ringmaster::agent {

// Returns the exit code.
int Main(int argc, char** argv);

}  // namespace ringmaster::agent
