#pragma once

// ringmaster-bench communicator: the trainer's communicator, given its buckets all at once as the
// session gives them, against a bare loop over Gloo in the same processes (figure B12).

#include "worker/bench/command.h"

namespace ringmaster::bench {

Command AddCommunicator(CLI::App& app);

}  // namespace ringmaster::bench
