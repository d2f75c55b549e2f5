#pragma once

// Determines which CUDA errors are faults of the device, which restarting the program does not fix,
// and formats them. Pure functions.

#include <string>

namespace ringmaster::trainer {

struct GpuFault {
  int error = 0;        // a cudaError_t
  std::string name{};   // for example "cudaErrorECCUncorrectable"
  std::string words{};  // CUDA's message
};

// Returns whether `error` means that the only GPU of the process is faulty, according to
// driver_types.h of CUDA 13.2. CUDA reports cudaErrorUnknown for a GPU that was lost earlier.
// Returns false for errors that a kernel of the program can cause, such as cudaErrorLaunchFailure
// and cudaErrorIllegalAddress, and for cudaErrorContained: the next process can use the device.
bool DeviceIsUnhealthy(int error);

// Returns "the GPU GPU-8932f937-… of this rank is no longer usable: CUDA reported \"uncorrectable
// ECC error encountered\" (cudaErrorECCUncorrectable)". `uuid` may be empty.
std::string GpuFaultText(const GpuFault& fault, const std::string& uuid);

}  // namespace ringmaster::trainer
