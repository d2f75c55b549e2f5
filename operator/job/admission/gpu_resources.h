#pragma once

// Determines which extended resources are GPUs: those of NVIDIA's device plugin (its README,
// "Shared Access to GPUs" and "MIG strategy"). Other resources of that domain, such as the network
// device nvidia.com/hostdev, are not GPUs. Also determines whether a container's environment
// variables expose GPUs without a resource request, which NVIDIA's container runtime allows.

#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// This environment variable lists GPUs by number or UUID, or is "all". CUDA images set it to "all";
// the device plugin sets it in containers with GPUs. A value in the Pod overrides both.
inline constexpr char kVisibleGpus[] = "NVIDIA_VISIBLE_DEVICES";
inline constexpr char kNoVisibleGpus[] = "void";

// Returns true for a shared GPU or a MIG slice.
inline bool IsPartOfGpu(std::string_view resource) {
  return resource.starts_with("nvidia.com/gpu.") || resource.starts_with("nvidia.com/mig-");
}

inline bool IsGpu(std::string_view resource) {
  return resource == api::kGpuResource || IsPartOfGpu(resource);
}
// Like IsGpu(), and also true for the job's own GPU resource (spec.worker.gpuResource).
inline bool IsGpuOf(const api::TrainingJobSpec& spec, std::string_view resource) {
  return IsGpu(resource) || (!resource.empty() && resource == spec.worker.gpu_resource);
}

// Returns true for resources that are not built into Kubernetes, including GPUs.
bool IsDevice(std::string_view resource);

// Returns true if a container has GPUs in its limits, or a resource claim, which may be for a GPU.
// The device plugin then sets kVisibleGpus. Ignores spec.worker.gpuResource, which users choose.
bool TakesGpus(const nlohmann::json& container);

// Returns true if an item of a container's `env`, which sets kVisibleGpus, hides all GPUs.
bool HidesGpus(const nlohmann::json& variable);

// Returns true if an item of a container's `envFrom` may set kVisibleGpus. Checks only the prefix,
// because the content is not available here.
bool MayNameGpus(const nlohmann::json& source);

// Returns the number of GPUs in the limits of the worker's container. Any number of shared GPUs or
// slices counts as one GPU, because a process sees only one of them.
int GpusPerWorker(const api::TrainingJobSpec& spec);

// Returns the slots per worker: spec.slotsPerWorker, or one per GPU, or 1 without GPUs.
int SlotsPerWorker(const api::TrainingJobSpec& spec);

}  // namespace ringmaster::job
