#pragma once

// This rank's contribution to a confirmation (comm/nccl/nccl_engine.h), which the device decides:
// when the kernel runs, all earlier work on the stream has ended, and the host has set a flag if it
// ended any of that work early.

#include <cstdint>

namespace ringmaster::trainer {

// Queues this on `stream` (a cudaStream_t): sets `*to`, in GPU memory, to `part` if `*gave_up`, in
// page-locked host memory, is then 0, and to 0 otherwise. Returns CUDA's error number, 0 for none.
int LaunchContribution(uint64_t* to, uint64_t part, const uint32_t* gave_up, void* stream);

}  // namespace ringmaster::trainer
