#pragma once

// Which extended resources are GPUs: those of NVIDIA's device plugin (its README, "Shared Access to
// GPUs" and "MIG strategy"). Others of the same domain are not: nvidia.com/hostdev, for example, is
// a network device of NVIDIA's network operator.

#include <string_view>

namespace ringmaster::job {

inline constexpr std::string_view kGpuResource = "nvidia.com/gpu";

// A share or a slice of a GPU.
inline bool IsPartOfGpu(std::string_view resource) {
  return resource.starts_with("nvidia.com/gpu.") || resource.starts_with("nvidia.com/mig-");
}

inline bool IsGpu(std::string_view resource) {
  return resource == kGpuResource || IsPartOfGpu(resource);
}

}  // namespace ringmaster::job
