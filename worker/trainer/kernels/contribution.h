#pragma once

// Computes this rank's contribution to a confirmation (comm/nccl/nccl_engine.h) on the device. When
// the kernel runs, all earlier work on the stream has ended, and the host has set a flag if it
// ended any of that work early.

#include <cstdint>

namespace ringmaster::trainer {

// Queues a kernel on `stream` (a cudaStream_t) that sets `*to` (GPU memory) to `part` if `*gave_up`
// (page-locked host memory) is 0, otherwise to 0. Returns CUDA's error number, 0 for none.
int LaunchContribution(uint64_t* to, uint64_t part, const uint32_t* gave_up, void* stream);

}  // namespace ringmaster::trainer
