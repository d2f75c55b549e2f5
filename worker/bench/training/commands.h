#pragma once

// The subcommands of ringmaster-bench that train.

#include "worker/bench/harness/command.h"

namespace ringmaster::bench {

// compression: the table of microsoft/AI-System Lab 4 (serial, allreduce, 8 bit, 16 bit at 2 and 4
// ranks: training time and accuracy) in one command; and, with --link, what a step of a model of 10
// million parameters takes over a link of that rate.
Command AddCompression(CLI::App& app);

// throughput: samples a second of ranks that train together, against the same ranks each for
// itself, and against PyTorch's DistributedDataParallel where it is (figure B13).
Command AddThroughput(CLI::App& app);

}  // namespace ringmaster::bench
