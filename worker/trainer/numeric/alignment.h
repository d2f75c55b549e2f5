#pragma once

// The alignment of parameters in flat memory. Kernels and NCCL access several floats at a time only
// at aligned addresses. Without padding, one bias of odd size would misalign all later parameters.
// The padding is zero and stays zero.

#include <cstdint>

namespace ringmaster::trainer {

inline constexpr int64_t kAlignedFloats = 64;  // 256 bytes, the alignment of CUDA's allocations

// Returns the size of `floats` values, including the padding, in floats.
constexpr int64_t AlignedCount(int64_t floats) {
  return (floats + kAlignedFloats - 1) / kAlignedFloats * kAlignedFloats;
}

// A line of a state's identity, so that a state with another layout is rejected.
inline constexpr char kLayoutText[] = "each parameter begins at a multiple of 64 floats\n";

}  // namespace ringmaster::trainer
