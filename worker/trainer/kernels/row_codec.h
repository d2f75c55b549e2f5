#pragma once

// Implements compression/codec.h on a GPU, with the same codes to the bit (compression/codes.h has
// the shared functions). Each function queues work on `stream` (a cudaStream_t) and returns CUDA's
// error number, 0 for success. Arrays are in GPU memory; `compression` must not be kNone.

#include <cstddef>
#include <cstdint>

#include "worker/trainer/compression/format.h"

namespace ringmaster::trainer {

// Encodes values[i] + carried[i]; `left` receives the residuals. `carried` may be null or `left`.
int LaunchEncode(Compression compression, const float* values, const float* carried, float* left,
                 std::byte* encoded, int64_t count, void* stream);

int LaunchDecode(Compression compression, const std::byte* encoded, float* values, int64_t count,
                 void* stream);
int LaunchDecodeAdd(Compression compression, const std::byte* encoded, float* values, int64_t count,
                    void* stream);

// Computes values[i] += carried[i].
int LaunchAdd(const float* carried, float* values, int64_t count, void* stream);

}  // namespace ringmaster::trainer
