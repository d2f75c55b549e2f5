#pragma once

// The program kubectl-trainingjob, which kubectl runs as `kubectl trainingjob`.

namespace ringmaster::cli {

// Exit codes: 0 means success, 1 a failed request or a failed check of doctor, and 2 an invalid
// command line.
int Main(int argc, char** argv);

}  // namespace ringmaster::cli
