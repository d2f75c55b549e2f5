#pragma once

// How far apart parameters lie in flat memory. Kernels read and write several floats at a time only
// where these begin at a multiple of their size, and NCCL its packets: one odd-sized bias would
// cost all that lies behind it. What lies between is zero, and stays so.

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
