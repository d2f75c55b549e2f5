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
  std::vector<int> architectures{};  // that its kernels are compiled for
  int ptx = 0;     // that drivers can compile them from, for this one and later ones; 0: none
  int cuda = 0;    // of this build
  int driver = 0;  // the newest CUDA that the driver can run; 0: no driver
  std::vector<FoundGpu> gpus{};
  std::string problem{};  // CUDA's words, where it could not say which GPUs there are
  std::string visible{};  // CUDA_VISIBLE_DEVICES, where that is set
  int nccl = 0;           // NCCL's version; 0: not loaded
  std::string nccl_problem{};
};

struct GpuRequest {
  std::string device = "auto";  // auto, cpu or cuda
  int gpus = 0;                 // assigned to this Pod
  int local_rank = 0;           // among the ranks of its Pod or host
  bool share = false;           // whether ranks may share a GPU, for tests
  std::string flag{};           // that asks for it, in messages; empty: --device
  std::string pinned{};         // the UUID of this rank's own GPU, the first that it sees; empty:
                                // it chooses by `local_rank`
};

// The UUID that the agent gave this process; empty: none.
std::string PinnedGpu();

// Whether this process's environment asks NCCL to let ranks share a GPU.
bool GpusAreShared();

// Whether it asks for a GPU: "auto" does where the Pod was given any.
bool WantsGpu(const GpuRequest& request);

// The GPU's number; nothing for the CPU, where none is wanted. kInvalid, in a sentence: why there
// is no GPU for this rank, and what to do.
Result<std::optional<int>> ChooseGpu(const GpuRequest& request, const GpuFacts& facts);

// "13.2" of 13020.
std::string CudaVersionText(int version);

}  // namespace ringmaster::trainer
