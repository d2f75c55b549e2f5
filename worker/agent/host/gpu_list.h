#pragma once

// The GPUs of a worker, and the assignment of GPUs to slots. Plain values and pure functions, used
// by gpu_watch.h, preflight and the agent.

#include <string>
#include <vector>

namespace ringmaster::agent {

// A GPU or a MIG instance of a GPU.
struct GpuDevice {
  std::string uuid;     // "GPU-…" or "MIG-…"; empty: the driver does not report it
  std::string fault{};  // the driver's error; empty if the device answers
};

struct GpuList {
  std::vector<GpuDevice> devices{};  // in the order of the PCI bus, like nvidia-smi's numbers
  std::string problem{};             // why the list is incomplete; empty: it is complete
  bool hangs = false;                // the list is incomplete because the driver hangs
};

// An error of a GPU that is being watched.
struct GpuTrouble {
  std::string uuid;
  int xid = 0;          // error number of the driver; 0: the GPU does not answer
  std::string fault{};  // why the GPU does not answer; empty if `xid` is set
};

// Parses the output of `nvidia-smi -L`: GPUs, and the MIG instances of divided GPUs.
std::vector<GpuDevice> ListedGpus(const std::string& output);

// Returns the UUIDs in NVIDIA_VISIBLE_DEVICES, which device plugins set to the container's GPUs.
// Returns none if the variable has another form.
std::vector<std::string> AssignedGpus(const std::string& visible);

// Returns CUDA_VISIBLE_DEVICES of each slot: the UUIDs of the slot's devices. A slot keeps its
// devices for the lifetime of the Pod, even if they fail. All slots get the same number of devices.
// If there are fewer devices than slots, returns none: every slot uses all devices.
std::vector<std::string> AssignGpus(const std::vector<GpuDevice>& devices, int slots);

// Returns the devices that the user's CUDA_VISIBLE_DEVICES names by number, UUID or prefix of a
// UUID, in the variable's order. As in CUDA, the list ends at the first invalid name.
std::vector<GpuDevice> ChooseGpus(const std::vector<GpuDevice>& devices,
                                  const std::string& visible);

}  // namespace ringmaster::agent
