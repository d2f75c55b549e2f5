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
  bool built_in = false;             // this build can use GPUs
  std::vector<int> architectures{};  // compute capabilities for which its kernels are compiled
  int ptx = 0;     // drivers can compile them for this architecture and later ones; 0: none
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
  int local_rank = 0;           // index among the ranks of its Pod or host
  bool share = false;           // whether ranks may share a GPU, for tests
  std::string flag{};           // the flag that requests a GPU, for messages; empty: --device
  std::string pinned{};         // UUID of the GPU assigned to this rank, which is the first that it
                                // sees; empty: it chooses by `local_rank`
};

// Returns the UUID of the GPU that the agent assigned to this process; empty if there is none.
std::string PinnedGpu();

// Returns whether this process's environment allows ranks to share a GPU in NCCL.
bool GpusAreShared();

// Returns whether a GPU is wanted. "auto" wants one if the Pod has any.
bool WantsGpu(const GpuRequest& request);

// Returns the GPU's number; nothing if the CPU is used. kInvalid, with a message that says why
// there is no GPU for this rank, and what to do.
Result<std::optional<int>> ChooseGpu(const GpuRequest& request, const GpuFacts& facts);

// Formats a version: "13.2" for 13020.
std::string CudaVersionText(int version);

}  // namespace ringmaster::trainer
