#pragma once

// Tells which CUDA errors are faults of the device, which a restart of the program does not fix,
// and formats them. Pure functions.

#include <string>

namespace ringmaster::trainer {

struct GpuFault {
  int error = 0;        // a cudaError_t
  std::string name{};   // "cudaErrorECCUncorrectable"
  std::string words{};  // CUDA's
};

// For the only GPU that the process may use, by driver_types.h of CUDA 13.2. cudaErrorUnknown is
// what CUDA says of a GPU that was lost before. Not by itself: cudaErrorLaunchFailure,
// cudaErrorIllegalAddress and the like, which a kernel of the program causes, and
// cudaErrorContained, after which the device works for the next process.
bool DeviceIsUnhealthy(int error);

// "the GPU GPU-8932f937-… of this rank cannot be used any more: CUDA says \"uncorrectable ECC error
// encountered\" (cudaErrorECCUncorrectable)". `uuid` may be empty.
std::string GpuFaultText(const GpuFault& fault, const std::string& uuid);

}  // namespace ringmaster::trainer
