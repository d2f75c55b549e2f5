#pragma once

// Selects the GPU of a rank, or explains why there is none. A pure function of the detected
// devices. A rank of a job that requests GPUs never falls back to the CPU.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::trainer {

struct FoundGpu {
  std::string name;
  int architecture = 0;  // 90 is compute capability 9.0
  int64_t memory_bytes = 0;
};

// The capabilities of this build and machine. CUDA versions are as CUDA encodes them: 13020 is
// 13.2.
struct GpuFacts {
  bool built_in = false;             // whether this build can use GPUs
  std::vector<int> architectures{};  // compute capabilities for which kernels are compiled
  int ptx = 0;     // oldest architecture for which drivers can compile the kernels; 0: none
  int cuda = 0;    // CUDA version of this build
  int driver = 0;  // newest CUDA version that the driver supports; 0: no driver
  std::vector<FoundGpu> gpus{};
  std::string problem{};  // CUDA's message if it could not list the GPUs
  std::string visible{};  // CUDA_VISIBLE_DEVICES, if it is set
  int nccl = 0;           // NCCL's version; 0: not loaded
  std::string nccl_problem{};
};

struct GpuRequest {
  std::string device = "auto";  // auto, cpu or cuda
  int gpus = 0;                 // number of GPUs of this Pod
  int local_rank = 0;           // index of the rank among those of its Pod or host
  bool share = false;           // whether ranks may share a GPU, for tests
  std::string flag{};           // the flag that requests a GPU, for messages; empty: --device
  std::string pinned{};         // UUID of the GPU assigned to this rank, which CUDA lists first;
                                // empty: the GPU is chosen by `local_rank`
};

// Returns the UUID of the GPU that the agent assigned to this process; empty if there is none.
std::string PinnedGpu();

// Returns whether NCCL's environment variables allow ranks to share a GPU.
bool GpusAreShared();

// Returns whether the rank must use a GPU. With "auto", it must do so if the Pod has GPUs.
bool WantsGpu(const GpuRequest& request);

// Returns the GPU's number; nothing if the CPU is used. kInvalid: there is no GPU for this rank;
// the message says why, and what the user can do.
Result<std::optional<int>> ChooseGpu(const GpuRequest& request, const GpuFacts& facts);

// Returns a CUDA version as text: "13.2" for 13020.
std::string CudaVersionText(int version);

}  // namespace ringmaster::trainer
