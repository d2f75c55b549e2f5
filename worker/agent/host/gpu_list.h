#pragma once

// The GPUs of a worker, and the assignment of GPUs to slots. Plain values and pure functions, used
// by gpu_watch.h, preflight and the agent.

#include <string>
#include <vector>

namespace ringmaster::agent {

// A GPU, or an instance of one (MIG).
struct GpuDevice {
  std::string uuid;     // "GPU-…" or "MIG-…"; empty: the driver cannot tell
  std::string fault{};  // why it does not answer, in the driver's words; empty: it does
};

struct GpuList {
  std::vector<GpuDevice> devices{};  // in the order of the PCI bus, as nvidia-smi counts them
  std::string problem{};             // why nobody could say; empty: `devices` are all
  bool hangs = false;                // that is because the driver hangs
};

// What befell a GPU while it was watched.
struct GpuTrouble {
  std::string uuid;
  int xid = 0;          // what the driver reported; 0: nothing, it just does not answer
  std::string fault{};  // why it does not answer; empty: an Xid
};

// What `nvidia-smi -L` lists: GPUs, and of those that are divided the instances.
std::vector<GpuDevice> ListedGpus(const std::string& output);

// The UUIDs in NVIDIA_VISIBLE_DEVICES, by which device plugins say what a container was given;
// empty where they say it in another way.
std::vector<std::string> GivenGpus(const std::string& visible);

// What CUDA_VISIBLE_DEVICES is to be in each slot: the UUIDs of its devices, the first one's first.
// A slot has the same for the Pod's life, whatever becomes of its device. Each has as many as the
// others. Empty: there are fewer devices than slots, of which none has one of its own.
std::vector<std::string> AssignGpus(const std::vector<GpuDevice>& devices, int slots);

// The devices that the user's CUDA_VISIBLE_DEVICES names, in its order: by number, UUID or the
// beginning of one. It ends at the first that is none, as CUDA reads it.
std::vector<GpuDevice> ChooseGpus(const std::vector<GpuDevice>& devices,
                                  const std::string& visible);

}  // namespace ringmaster::agent
