#pragma once

// Implements batch_norm/norm_arithmetic.h on a GPU, with one pass over memory for each sum and each
// result. For adjacent channels, LibTorch's statistics kernel reaches only a quarter of the memory
// bandwidth, and its activations need further passes. Memory must be 16-byte aligned, and the
// number of channels must be a multiple of kNormChannels.

#include <cstdint>

#include "worker/trainer/batch_norm/norm_arithmetic.h"

namespace ringmaster::trainer {

constexpr int64_t kNormChannels = 8;

int64_t NormScratch(const NormRows& rows);

// All functions queue work on `stream` (a cudaStream_t) and return CUDA's error number, 0 for none.
int LaunchNormStatistics(const NormRows& rows, const void* x, float* scratch,
                         const NormStatistics& to, void* stream);
int LaunchNormalise(const NormRows& rows, const NormParameters& parameters, const void* x,
                    const void* shortcut, void* y, void* stream);
int LaunchNormBackward(const NormRows& rows, const NormParameters& parameters, const void* x,
                       const void* y_gradient, float* scratch, const NormGradients& to,
                       void* x_gradient, void* stream);

}  // namespace ringmaster::trainer
