#pragma once

// ringmaster-bench allreduce, reduce-scatter, all-gather, all-to-all, broadcast: flags, columns and
// formulas of nccl-tests.

#include "worker/bench/collectives/collective.h"
#include "worker/bench/command.h"

namespace ringmaster::bench {

Command AddCollective(CLI::App& app, Collective collective);

}  // namespace ringmaster::bench
