#include "worker/trainer/gpu/gpu_choice.h"

#include <algorithm>
#include <cstdlib>

#include "common/base/count_text.h"
#include "common/control/pod_contract.h"

namespace ringmaster::trainer {
namespace {

// Machine code runs on GPUs with the same major architecture and an equal or higher minor one.
bool Covers(const GpuFacts& facts, int gpu) {
  if (facts.ptx > 0 && gpu >= facts.ptx) return true;
  return std::ranges::any_of(facts.architectures,
                             [&](int built) { return built / 10 == gpu / 10 && built <= gpu; });
}

std::string ListOf(const std::vector<int>& architectures) {
  std::string list;
  for (const int architecture : architectures) {
    list += (list.empty() ? "sm_" : ", sm_") + std::to_string(architecture);
  }
  return list;
}

// Returns a problem that affects all ranks on this machine; empty if there is none.
std::string WhyNone(const GpuFacts& facts, const std::string& pinned) {
  if (!facts.built_in) {
    return "this build of ringmaster-train does not support GPUs; use one that is built with CUDA";
  }
  if (facts.driver == 0) {
    return "no NVIDIA driver is loaded or visible in this container; request nvidia.com/gpu in the "
           "job's resources and check the node's driver";
  }
  if (facts.driver / 1000 < facts.cuda / 1000) {
    return "the NVIDIA driver is too old: it runs CUDA up to " + CudaVersionText(facts.driver) +
           ", and this build needs " + CudaVersionText(facts.cuda) + "; update the node's driver";
  }
  if (facts.gpus.empty()) {
    const std::string why = facts.problem.empty() ? "" : " (CUDA reported: " + facts.problem + ")";
    if (!pinned.empty()) {
      return "GPU " + pinned +
             ", which is assigned to this rank for the lifetime of its Pod, was not found" + why;
    }
    if (!facts.visible.empty()) {
      return "no GPU is visible with CUDA_VISIBLE_DEVICES=" + facts.visible + why;
    }
    return "no GPU is visible to this process" + why +
           "; request nvidia.com/gpu in the job's resources";
  }
  if (facts.nccl == 0) return "NCCL is not available: " + facts.nccl_problem;
  return "";
}

}  // namespace

bool GpusAreShared() {
  const char* const several = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return std::getenv("NCCL_HOSTID") != nullptr || (several != nullptr && std::atoi(several) != 0);
}

std::string PinnedGpu() {
  const char* const uuid = std::getenv(control::kEnvGpuUuid);
  return uuid == nullptr ? "" : uuid;
}

bool WantsGpu(const GpuRequest& request) {
  return request.device == "cuda" || (request.device == "auto" && request.gpus > 0);
}

Result<std::optional<int>> ChooseGpu(const GpuRequest& request, const GpuFacts& facts) {
  if (!WantsGpu(request)) return std::optional<int>();
  const std::string asked = !request.flag.empty() ? request.flag
                            : request.device == "auto"
                                ? "the job requests " + CountText(request.gpus, "GPU")
                                : "--device=" + request.device;
  const auto refused = [&](const std::string& why) {
    return Error{ErrorKind::kInvalid, asked + ": " + why};
  };
  if (const std::string why = WhyNone(facts, request.pinned); !why.empty()) return refused(why);
  const int count = static_cast<int>(facts.gpus.size());
  const int local_rank = request.pinned.empty() ? request.local_rank : 0;
  if (local_rank >= count && !request.share) {
    return refused("this is rank " + std::to_string(local_rank) +
                   " of its host, counted from 0, which has " + CountText(count, "GPU") +
                   "; start at most one rank per GPU");
  }
  const int chosen = local_rank % count;
  const FoundGpu& gpu = facts.gpus[static_cast<std::size_t>(chosen)];
  if (!Covers(facts, gpu.architecture)) {
    return refused("GPU " + std::to_string(chosen) + ", " + gpu.name + ", is sm_" +
                   std::to_string(gpu.architecture) + ", but this build has machine code for " +
                   ListOf(facts.architectures) + "; build with -DCMAKE_CUDA_ARCHITECTURES=" +
                   std::to_string(gpu.architecture) + "-real");
  }
  return std::optional<int>(chosen);
}

std::string CudaVersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version / 10 % 100);
}

}  // namespace ringmaster::trainer
