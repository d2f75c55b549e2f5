#pragma once

// A network of four linear layers on images of digits. It has more than 10 million parameters and
// few operations for each, so that the exchange of gradients dominates the time of a step.

#include <cstdint>
#include <memory>

#include "worker/bench/training/digits.h"
#include "worker/trainer/workloads/workload.h"

namespace ringmaster::bench {

std::unique_ptr<trainer::Workload> MakePerceptron(const Digits& digits, int64_t global_batch);

}  // namespace ringmaster::bench
