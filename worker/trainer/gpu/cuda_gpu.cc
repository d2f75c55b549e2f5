#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "worker/trainer/comm/nccl/nccl_communicator.h"
#include "worker/trainer/gpu/cuda_device.h"
#include "worker/trainer/gpu/cuda_row_codec.h"
#include "worker/trainer/gpu/gpu.h"

namespace ringmaster::trainer {
namespace {

// RINGMASTER_CUDA_ARCHITECTURES lists the kernels' architectures in CMake's notation.
// "90-real,120" means machine code for both architectures and PTX for the second.
void ReadArchitectures(GpuFacts& facts) {
  std::istringstream list(RINGMASTER_CUDA_ARCHITECTURES);
  for (std::string item; std::getline(list, item, ',');) {
    const int number = std::atoi(item.c_str());
    if (!item.ends_with("-virtual")) facts.architectures.push_back(number);
    if (!item.ends_with("-real")) facts.ptx = std::max(facts.ptx, number);
  }
}

void FindDevices(GpuFacts& facts) {
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess) {
    if (counted != cudaErrorNoDevice) facts.problem = cudaGetErrorString(counted);
    static_cast<void>(cudaGetLastError());
    return;
  }
  for (int number = 0; number < count; ++number) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, number) != cudaSuccess) continue;
    facts.gpus.push_back({.name = properties.name,
                          .architecture = properties.major * 10 + properties.minor,
                          .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem)});
  }
}

class CudaGpu final : public Gpu {
 public:
  CudaGpu(int number, NcclApi nccl, std::chrono::milliseconds abort_limit)
      : number_(number),
        runtime_(std::make_shared<NcclRuntime>(std::move(nccl), MakeCudaDevice(number),
                                               NcclRuntime::Options{.abort_limit = abort_limit})) {}

  std::string device() const override { return "cuda:" + std::to_string(number_); }

  Result<void> Works() override {
    if (cudaSetDevice(number_) != cudaSuccess) static_cast<void>(cudaGetLastError());
    const std::optional<GpuFault> fault = FindGpuFault();
    if (!fault) return {};
    return Error{ErrorKind::kUnavailable, GpuFaultText(*fault, PinnedGpu())};
  }

  CommunicatorFactory communicators(AbandonedConnects& abandoned_connects) override {
    return [runtime = runtime_, &abandoned_connects](
               const World& world, Deadline deadline) -> Result<std::unique_ptr<Communicator>> {
      if (Result<void> room = abandoned_connects.Room(); !room.ok()) return room.error();
      return std::unique_ptr<Communicator>(
          new NcclCommunicator(runtime, world, deadline, abandoned_connects));
    };
  }

  void* ReducedInPlace(std::size_t bytes) override { return runtime_->MakeRegistered(bytes); }

  Result<std::unique_ptr<RowCodec>> codec(Compression compression) override {
    return MakeCudaRowCodec(number_, compression);
  }

 private:
  const int number_;
  const std::shared_ptr<NcclRuntime> runtime_;
};

}  // namespace

GpuFacts FindGpus() {
  GpuFacts facts{.built_in = true, .cuda = CUDART_VERSION};
  ReadArchitectures(facts);
  if (cudaDriverGetVersion(&facts.driver) != cudaSuccess) facts.driver = 0;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr) facts.visible = visible;
  if (facts.driver > 0) FindDevices(facts);
  const Result<NcclApi> nccl = LoadNccl();
  if (nccl.ok()) {
    facts.nccl = nccl->version;
  } else {
    facts.nccl_problem = nccl.error().message;
  }
  return facts;
}

std::optional<GpuFault> FindGpuFault() {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  // After an error that breaks the CUDA context, every call returns that error.
  if (error == cudaSuccess) error = cudaStreamQuery(nullptr);
  if (error == cudaSuccess || error == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return std::nullopt;
  }
  return GpuFault{static_cast<int>(error), cudaGetErrorName(error), cudaGetErrorString(error)};
}

Result<std::unique_ptr<Gpu>> OpenGpu(int number, std::chrono::milliseconds abort_limit) {
  Result<NcclApi> nccl = LoadNccl();
  if (!nccl.ok()) return nccl.error();
  const std::unique_ptr<DeviceApi> device = MakeCudaDevice(number);
  if (Result<void> used = device->Use(); !used.ok()) {
    return used.error().WithContext("starting GPU " + std::to_string(number));
  }
  return std::unique_ptr<Gpu>(new CudaGpu(number, *std::move(nccl), abort_limit));
}

}  // namespace ringmaster::trainer
