#pragma once

// ringmaster-bench throughput: samples a second of ranks that train together, against the same
// ranks each for itself, and against PyTorch's DistributedDataParallel where it is (figure B13).

#include "worker/bench/command.h"

namespace ringmaster::bench {

Command AddThroughput(CLI::App& app);

}  // namespace ringmaster::bench
