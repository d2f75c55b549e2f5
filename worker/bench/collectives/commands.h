#pragma once

// The subcommands of ringmaster-bench that measure collectives.

#include "worker/bench/collectives/collective.h"
#include "worker/bench/harness/command.h"

namespace ringmaster::bench {

// The subcommand of one operation, with the flags, columns and formulas of nccl-tests.
Command AddCollective(CLI::App& app, Collective collective);

// communicator: compares the trainer's communicator, which gets all buckets at once as from the
// session, with a bare loop over Gloo in the same processes (figure B12).
Command AddCommunicator(CLI::App& app);

}  // namespace ringmaster::bench
