#pragma once

// The program kubectl-trainingjob, which kubectl runs as `kubectl trainingjob`.

namespace ringmaster::cli {

// Exit codes: 0; 1 for what could not be done, or a check of doctor that failed; 2 for a wrong
// command line.
int Main(int argc, char** argv);

}  // namespace ringmaster::cli
