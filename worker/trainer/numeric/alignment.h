#pragma once

// The alignment of parameters in flat memory. Kernels access several floats at a time only at
// aligned addresses, and NCCL does so with its packets; one odd-sized bias would slow down
// everything behind it. The padding is zero and stays zero.

#include <cstdint>

namespace ringmaster::trainer {

inline constexpr int64_t kAlignedFloats = 64;  // 256 bytes, as CUDA's own allocations

// The room that so many floats take.
constexpr int64_t AlignedCount(int64_t floats) {
  return (floats + kAlignedFloats - 1) / kAlignedFloats * kAlignedFloats;
}

// A line of a state's identity: one that is laid out otherwise does not fit.
inline constexpr char kLayoutText[] = "each parameter begins at a multiple of 64 floats\n";

}  // namespace ringmaster::trainer
