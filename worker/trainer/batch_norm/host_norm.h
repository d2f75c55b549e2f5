#pragma once

// Batch normalisation of floats on the host, with one pass over memory for each sum and each
// result, on LibTorch's threads. Sums do not depend on the number of threads. LibTorch's
// implementation needs twice as many passes, and its backward pass of PReLU is scalar.

#include <memory>

#include "worker/trainer/batch_norm/norm_arithmetic.h"

namespace ringmaster::trainer {

std::shared_ptr<const NormArithmetic> HostNorm();

}  // namespace ringmaster::trainer
