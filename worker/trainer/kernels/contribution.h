#pragma once

// This rank's part of a confirmation (comm/nccl/nccl_engine.h), decided by the device: by the time
// that the kernel runs, all before it on the stream has ended, and the host has said whether it
// ended any of that.

#include <cstdint>

namespace ringmaster::trainer {

// Puts on `stream` (a cudaStream_t): `*to`, in the GPU's memory, becomes `part` where `*gave_up`,
// in page-locked memory of the host, is 0 by then, else 0. Returns CUDA's error number, 0 for none.
int LaunchContribution(uint64_t* to, uint64_t part, const uint32_t* gave_up, void* stream);

}  // namespace ringmaster::trainer
