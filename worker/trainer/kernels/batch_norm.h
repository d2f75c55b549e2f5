#pragma once

// batch_norm/norm_arithmetic.h on a GPU: one pass over memory for each sum and each result. Of
// LibTorch's kernels for channels that lie next to each other, the one for the statistics reaches a
// quarter of the memory's bandwidth, and each activation goes through memory once more, there and
// back. Memory is 16-byte aligned, and channels are a multiple of kNormChannels.

#include <cstdint>

#include "worker/trainer/batch_norm/norm_arithmetic.h"

namespace ringmaster::trainer {

constexpr int64_t kNormChannels = 8;

int64_t NormScratch(const NormRows& rows);

// All put work on `stream` (a cudaStream_t) and return CUDA's error number, 0 for none.
int LaunchNormStatistics(const NormRows& rows, const void* x, float* scratch,
                         const NormStatistics& to, void* stream);
int LaunchNormalise(const NormRows& rows, const NormParameters& parameters, const void* x,
                    const void* shortcut, void* y, void* stream);
int LaunchNormBackward(const NormRows& rows, const NormParameters& parameters, const void* x,
                       const void* y_gradient, float* scratch, const NormGradients& to,
                       void* x_gradient, void* stream);

}  // namespace ringmaster::trainer
