#pragma once

// Tells which extended resources are GPUs: those of NVIDIA's device plugin (its README, "Shared
// Access to GPUs" and "MIG strategy"). Others of that domain, such as the network device
// nvidia.com/hostdev, are not. Also tells whether a container's variables expose GPUs without a
// request, which NVIDIA's container runtime allows.

#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// GPUs by their numbers or UUIDs, or "all". Images for CUDA bring "all"; the device plugin sets it
// for a container with GPUs, and what the Pod itself says overrules both.
inline constexpr char kVisibleGpus[] = "NVIDIA_VISIBLE_DEVICES";
inline constexpr char kNoVisibleGpus[] = "void";

// A share or a slice of a GPU.
inline bool IsPartOfGpu(std::string_view resource) {
  return resource.starts_with("nvidia.com/gpu.") || resource.starts_with("nvidia.com/mig-");
}

inline bool IsGpu(std::string_view resource) {
  return resource == api::kGpuResource || IsPartOfGpu(resource);
}
// The same, or what the job calls GPUs (spec.worker.gpuResource).
inline bool IsGpuOf(const api::TrainingJobSpec& spec, std::string_view resource) {
  return IsGpu(resource) || (!resource.empty() && resource == spec.worker.gpu_resource);
}

// A resource that Kubernetes does not know by itself, GPUs among them.
bool IsDevice(std::string_view resource);

// Whether a container of a Pod asks for GPUs, by its limits, or for a claim, which may be one. What
// hands them out sets kVisibleGpus. By its name alone: a job may call anything GPUs.
bool TakesGpus(const nlohmann::json& container);

// Whether a variable of a container's `env` says that it sees no GPU.
bool HidesGpus(const nlohmann::json& variable);

// Whether an item of a container's `envFrom`, whose content is not read here, may contain
// kVisibleGpus.
bool MayNameGpus(const nlohmann::json& source);

// A worker's GPUs, by its container's limits; 0 without any. Of parts, however many there are, a
// process sees one: they are one GPU.
int GpusPerWorker(const api::TrainingJobSpec& spec);

// Ranks per worker: spec.slotsPerWorker, else the worker's GPUs, else 1.
int SlotsPerWorker(const api::TrainingJobSpec& spec);

}  // namespace ringmaster::job
