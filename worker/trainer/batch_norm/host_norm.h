#pragma once

// Batch normalisation of floats on the host: one pass over memory for each sum and each result, on
// LibTorch's threads. Sums do not depend on the number of threads. LibTorch's own implementation
// needs twice as many passes, and its PReLU's backward pass is scalar.

#include <memory>

#include "worker/trainer/batch_norm/norm_arithmetic.h"

namespace ringmaster::trainer {

std::shared_ptr<const NormArithmetic> HostNorm();

}  // namespace ringmaster::trainer
