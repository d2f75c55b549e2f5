#include <algorithm>
#include <cctype>
#include <filesystem>

#include "worker/agent/preflight/check.h"

namespace ringmaster::agent {
namespace {

bool IsGpuDevice(const std::string& name) {
  constexpr char kPrefix[] = "nvidia";
  const std::string number = name.starts_with(kPrefix) ? name.substr(sizeof kPrefix - 1) : "";
  return !number.empty() && std::all_of(number.begin(), number.end(),
                                        [](unsigned char c) { return std::isdigit(c) != 0; });
}

int GpuDevices() {
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    if (IsGpuDevice(entry.path().filename())) ++count;
  }
  return count;
}

}  // namespace

// A job that asked for GPUs and got none must fail, not train on the CPU.
std::optional<Finding> CheckGpus(const Config& config) {
  const int found = config.gpus > 0 ? GpuDevices() : 0;
  if (found >= config.gpus) return std::nullopt;
  return Finding{"gpu", "this worker was given " + std::to_string(config.gpus) + " GPUs and has " +
                            std::to_string(found) +
                            " /dev/nvidia* devices; check the node's driver, its device plugin and "
                            "container runtime, and NVIDIA_VISIBLE_DEVICES"};
}

}  // namespace ringmaster::agent
