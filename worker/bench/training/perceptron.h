#pragma once

// A network of four linear layers on images of digits. It has more than 10 million parameters and
// few operations for each, so that the gradients' exchange dominates the step, and not arithmetic.

#include <cstdint>
#include <memory>

#include "worker/bench/training/digits.h"
#include "worker/trainer/workloads/workload.h"

namespace ringmaster::bench {

std::unique_ptr<trainer::Workload> MakePerceptron(const Digits& digits, int64_t global_batch);

}  // namespace ringmaster::bench
