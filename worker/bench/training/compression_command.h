#pragma once

// ringmaster-bench compression: the table of microsoft/AI-System Lab 4 (serial, allreduce, 8 bit,
// 16 bit at 2 and 4 ranks: training time and accuracy) in one command; and, with --link, what a
// step of a model of 10 million parameters takes over a link of that rate.

#include "worker/bench/command.h"

namespace ringmaster::bench {

Command AddCompression(CLI::App& app);

}  // namespace ringmaster::bench
