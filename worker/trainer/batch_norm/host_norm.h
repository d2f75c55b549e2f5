#pragma once

// The arithmetic on the host, for floats: one pass over memory for each sum and each result, on
// LibTorch's threads. Sums do not depend on how many those are. LibTorch's own takes twice as many
// passes, and its PReLU goes back one value at a time.

#include <memory>

#include "worker/trainer/batch_norm/norm_arithmetic.h"

namespace ringmaster::trainer {

std::shared_ptr<const NormArithmetic> HostNorm();

}  // namespace ringmaster::trainer
