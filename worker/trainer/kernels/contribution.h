#pragma once

// This rank's contribution to a confirmation (comm/nccl/nccl_engine.h), decided on the device: when
// the kernel runs, all earlier work on the stream has ended, and the host has stated whether it
// ended any of it early.

#include <cstdint>

namespace ringmaster::trainer {

// Queues on `stream` (a cudaStream_t): `*to`, in GPU memory, is set to `part` if `*gave_up`, in
// page-locked host memory, is then 0, else to 0. Returns CUDA's error number, 0 for none.
int LaunchContribution(uint64_t* to, uint64_t part, const uint32_t* gave_up, void* stream);

}  // namespace ringmaster::trainer
