#pragma once

// The subcommands of ringmaster-bench that train.

#include "worker/bench/harness/command.h"

namespace ringmaster::bench {

// compression: the table of microsoft/AI-System Lab 4 (serial, allreduce, 8 bit, 16 bit at 2 and 4
// ranks: training time and accuracy) in one command. With --link, also the time of a step of a
// model with 10 million parameters over a link of that rate.
Command AddCompression(CLI::App& app);

// throughput: samples per second of ranks that train together, compared with the same ranks each
// training alone, and with PyTorch's DistributedDataParallel if it is installed (figure B13).
Command AddThroughput(CLI::App& app);

}  // namespace ringmaster::bench
