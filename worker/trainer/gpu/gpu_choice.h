#pragma once

// Selects the GPU of a rank or explains why none can be used. A pure function of the detected
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
  bool built_in = false;             // this build has the trainer's GPU side
  std::vector<int> architectures{};  // compute capabilities for which its kernels are compiled
  int ptx = 0;     // that drivers can compile them from, for this one and later ones; 0: none
  int cuda = 0;    // of this build
  int driver = 0;  // the newest CUDA that the driver can run; 0: no driver
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
  std::string flag{};           // the flag that asks for a GPU, for messages; empty: --device
  std::string pinned{};         // the UUID of this rank's own GPU, the first that it sees; empty:
                                // it chooses by `local_rank`
};

// The UUID of the GPU that the agent assigned to this process; empty: none.
std::string PinnedGpu();

// Whether the environment of this process tells NCCL to let ranks share a GPU.
bool GpusAreShared();

// Whether a GPU is wanted. "auto" wants one if the Pod has any.
bool WantsGpu(const GpuRequest& request);

// The GPU's number; nothing if the CPU is used. kInvalid, in a sentence: why there
// is no GPU for this rank, and what to do.
Result<std::optional<int>> ChooseGpu(const GpuRequest& request, const GpuFacts& facts);

// Formats a version: "13.2" for 13020.
std::string CudaVersionText(int version);

}  // namespace ringmaster::trainer
