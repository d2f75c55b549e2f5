#pragma once

// The flags that affect the result of training: its steps, and what each step does to the
// state. Other flags (paths, speed, output) may differ between two runs of the same
// training.

#include <cstdint>
#include <span>
#include <string>

#include "worker/trainer/train/train_options.h"

namespace ringmaster::trainer {

// Every flag is in exactly one of these two lists.
std::span<const char* const> ShapingFlags();
std::span<const char* const> OtherFlags();

// Values that result from the flags and the data.
struct ShapedBy {
  int64_t steps = 0;  // steps of the whole run
  double weight_decay = 0;
  uint64_t data = 0;  // fingerprint of the data
};

// Returns lines "--flag=value" and "training data=…". Runs whose texts are equal train identically.
std::string ShapingOf(const TrainOptions& options, const ShapedBy& by);

}  // namespace ringmaster::trainer
