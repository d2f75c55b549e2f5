#pragma once

// The subcommands of ringmaster-bench that train.

#include "worker/bench/harness/command.h"

namespace ringmaster::bench {

// compression: prints the table of microsoft/AI-System Lab 4 (training time and accuracy with
// serial, allreduce, 8 bit and 16 bit, at 2 and 4 ranks). With --link, also measures the step time
// of a model with 10 million parameters over a link of that rate.
Command AddCompression(CLI::App& app);

// throughput: compares the samples per second of ranks that train together with those of the same
// ranks training alone and of PyTorch's DistributedDataParallel, if it is installed (figure B13).
Command AddThroughput(CLI::App& app);

}  // namespace ringmaster::bench
