#include "worker/trainer/build_info.h"

#include <ATen/Context.h>
#include <gloo/config.h>
#include <torch/version.h>

namespace ringmaster::trainer {
namespace {

std::string Line(bool present, const std::string& text) {
  return std::string("    [") + (present ? "X" : " ") + "] " + text + "\n";
}

}  // namespace

std::string BuildReport() {
  const bool cuda = at::hasCUDA();
  return std::string("Ringmaster ") + RINGMASTER_VERSION + "\n\nFrameworks:\n" +
         Line(true, std::string("LibTorch ") + TORCH_VERSION) +
         Line(cuda, std::string("CUDA in LibTorch") + (cuda ? "" : " (not in this LibTorch)")) +
         "\nControllers:\n" + Line(true, "Ringmaster agent") +
         Line(true, "Rendezvous folder (--store)") + Line(true, "Single process") +
         Line(false, "MPI (not needed: mpirun only starts the ranks)") + "\nTensor operations:\n" +
         Line(false, "NCCL (not in this build)") +
         Line(true, "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." +
                        std::to_string(GLOO_VERSION_MINOR) + "." +
                        std::to_string(GLOO_VERSION_PATCH)) +
         Line(false, "MPI") + "\nDevices:\n" + Line(true, "CPU") + Line(false, "CUDA GPUs");
}

Result<void> CheckDevice(const std::string& device, int gpus) {
  if (device == "cpu" || (device == "auto" && gpus == 0)) return {};
  const std::string why =
      at::hasCUDA() ? "this build of ringmaster-train has no NCCL communicator"
                    : std::string("this build's LibTorch ") + TORCH_VERSION + " has no CUDA";
  const std::string asked = device == "auto" ? "the job asks for " + std::to_string(gpus) + " GPUs"
                                             : "--device=" + device;
  return Error{ErrorKind::kInvalid, asked + ": " + why + "; use --device=cpu to train on the CPU"};
}

}  // namespace ringmaster::trainer
