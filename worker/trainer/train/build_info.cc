#include "worker/trainer/train/build_info.h"

#include <torch/version.h>

#include "worker/trainer/comm/host/transport_choice.h"
#include "worker/trainer/comm/nccl/nccl_api.h"

namespace ringmaster::trainer {
namespace {

std::string Line(bool present, const std::string& text) {
  return std::string("    [") + (present ? "X" : " ") + "] " + text + "\n";
}

std::string CudaLine(const GpuFacts& facts) {
  if (!facts.built_in) return Line(false, "CUDA (not in this build)");
  std::string architectures;
  for (const int architecture : facts.architectures) {
    architectures += " sm_" + std::to_string(architecture);
  }
  if (facts.ptx > 0) {
    architectures += ", and PTX for sm_" + std::to_string(facts.ptx) + " and later";
  }
  return Line(true, "CUDA " + CudaVersionText(facts.cuda) + ", kernels for" + architectures);
}

std::string NcclLine(const GpuFacts& facts) {
  if (facts.nccl > 0) return Line(true, "NCCL " + NcclVersionText(facts.nccl));
  return Line(
      false,
      "NCCL (" + (facts.built_in ? facts.nccl_problem : std::string("not in this build")) + ")");
}

std::string GlooLine() {
  const std::string version = GlooVersion();
  return version.empty() ? Line(false, "Gloo (not in this build)") : Line(true, "Gloo " + version);
}

std::string GpuLines(const GpuFacts& facts) {
  if (!facts.built_in) return Line(false, "CUDA GPUs");
  if (facts.gpus.empty()) {
    return Line(false, "CUDA GPUs (" +
                           (facts.driver == 0        ? std::string("no NVIDIA driver")
                            : !facts.problem.empty() ? facts.problem
                            : !facts.visible.empty() ? "CUDA_VISIBLE_DEVICES=" + facts.visible
                                                     : "none found") +
                           ")");
  }
  std::string lines;
  for (std::size_t number = 0; number < facts.gpus.size(); ++number) {
    const FoundGpu& gpu = facts.gpus[number];
    lines += Line(true, "GPU " + std::to_string(number) + ": " + gpu.name + ", sm_" +
                            std::to_string(gpu.architecture) + ", " +
                            std::to_string(gpu.memory_bytes >> 20) + " MiB; driver for CUDA " +
                            CudaVersionText(facts.driver));
  }
  return lines;
}

}  // namespace

std::string BuildReport(const GpuFacts& facts) {
  return std::string("Ringmaster ") + RINGMASTER_VERSION + "\n\nFrameworks:\n" +
         Line(true, std::string("LibTorch ") + TORCH_VERSION) + CudaLine(facts) +
         "\nControllers:\n" + Line(true, "Ringmaster agent") +
         Line(true, "Rendezvous folder (--store)") + Line(true, "Single process") +
         "\nTensor operations:\n" + NcclLine(facts) + GlooLine() + Line(true, "Shared memory") +
         "\nDevices:\n" + Line(true, "CPU") + GpuLines(facts);
}

}  // namespace ringmaster::trainer
