#pragma once

// A plain network of four linear layers on images of digits, with more than 10 million parameters
// and few operations for each: a model whose gradients, not whose computing, fill the step.

#include <cstdint>
#include <memory>

#include "worker/bench/training/digits.h"
#include "worker/trainer/workloads/workload.h"

namespace ringmaster::bench {

std::unique_ptr<trainer::Workload> MakePerceptron(const Digits& digits, int64_t global_batch);

}  // namespace ringmaster::bench
