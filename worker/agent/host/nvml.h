#pragma once

// Reads the state of the container's GPUs from NVIDIA's management library (NVML). The library is
// loaded at run time and not linked, because images and nodes without GPUs lack it.
//
// A static program cannot load libraries and calls nvidia-smi instead (nvidia_smi.cc). nvidia-smi
// lists the GPUs but cannot watch them for errors.
//
// Calls hang if the driver hangs, and a thread that hangs in a driver cannot be stopped. Therefore
// the calls are made only in a separate process (gpu_watch.h), which can be abandoned.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "worker/agent/host/gpu_list.h"

namespace ringmaster::agent {

class Nvml {
 public:
  // `library` is a name for dlopen(); a static program ignores it. kNotFound: the library does not
  // exist. kUnavailable: the library cannot reach a driver; the message is its error.
  static Result<std::unique_ptr<Nvml>> Open(const std::string& library);
  virtual ~Nvml() = default;

  // Lists the GPUs that this container may use, and the MIG instances of divided GPUs. A device
  // without a fault has answered a request that only the device itself can answer.
  virtual Result<std::vector<GpuDevice>> Devices() = 0;

  // Waits up to `limit` for errors. Returns an error of a GPU for each of its MIG instances.
  // REQUIRES: Devices() succeeded.
  virtual std::vector<GpuTrouble> Await(std::chrono::milliseconds limit) = 0;
};

}  // namespace ringmaster::agent
