#pragma once

// What NVIDIA's management library (NVML) says of the GPUs in this container. It is loaded when it
// is asked for: nothing is linked to it, and images and nodes without GPUs have none.
//
// A static program can load nothing, and asks nvidia-smi instead (nvidia_smi.cc): it learns which
// GPUs there are, and nothing of what befalls them.
//
// Calls hang where the driver does, and nothing ends a thread that hangs in a driver. So only a
// process of its own makes them (gpu_watch.h), which can be left behind.

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
  // `library` as dlopen() takes it; a static program passes it over. kNotFound: there is none.
  // kUnavailable: it cannot reach a driver, in its words.
  static Result<std::unique_ptr<Nvml>> Open(const std::string& library);
  virtual ~Nvml() = default;

  // The GPUs that this container may use, and of those that are divided (MIG) the instances; each
  // was asked something that the device itself must answer.
  virtual Result<std::vector<GpuDevice>> Devices() = 0;

  // Waits up to `limit` for something to befall them; an instance shares the trouble of its GPU.
  // REQUIRES: Devices() succeeded.
  virtual std::vector<GpuTrouble> Await(std::chrono::milliseconds limit) = 0;
};

}  // namespace ringmaster::agent
