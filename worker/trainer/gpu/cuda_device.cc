#include "worker/trainer/gpu/cuda_device.h"

#include <string>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "worker/trainer/kernels/contribution.h"

namespace ringmaster::trainer {
namespace {

Result<void> Checked(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return {};
  return Error{ErrorKind::kUnavailable,
               std::string(call) + ": CUDA reported \"" + cudaGetErrorString(result) + "\""};
}

template <typename T, typename Make>
Result<void*> Made(const char* call, Make make) {
  T made{};
  if (Result<void> done = Checked(make(&made), call); !done.ok()) return done.error();
  return static_cast<void*>(made);
}

class CudaDevice final : public DeviceApi {
 public:
  explicit CudaDevice(int number) : number_(number) {}

  Result<void> Use() override { return Checked(cudaSetDevice(number_), "cudaSetDevice"); }

  DeviceStream ComputingStream() override {
    return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(number_)).stream();
  }

  // Reductions must not wait for computation, so this stream has a higher priority.
  Result<DeviceStream> MakeStream() override {
    int lowest = 0;
    int highest = 0;
    const cudaError_t range = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    if (Result<void> known = Checked(range, "cudaDeviceGetStreamPriorityRange"); !known.ok()) {
      return known.error();
    }
    return Made<cudaStream_t>("cudaStreamCreate", [highest](cudaStream_t* stream) {
      return cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, highest);
    });
  }
  void DropStream(DeviceStream stream) override {
    static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(stream)));
  }

  Result<DeviceEvent> MakeEvent() override {
    return Made<cudaEvent_t>("cudaEventCreate", [](cudaEvent_t* event) {
      return cudaEventCreateWithFlags(event, cudaEventDisableTiming);
    });
  }
  void DropEvent(DeviceEvent event) override {
    static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(event)));
  }
  Result<void> Record(DeviceEvent event, DeviceStream stream) override {
    return Checked(
        cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream)),
        "cudaEventRecord");
  }
  Result<void> Follow(DeviceStream stream, DeviceEvent event) override {
    return Checked(
        cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event), 0),
        "cudaStreamWaitEvent");
  }
  Result<bool> Done(DeviceEvent event) override {
    const cudaError_t state = cudaEventQuery(static_cast<cudaEvent_t>(event));
    if (state == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // clears the error, which LibTorch would report
      return false;
    }
    if (Result<void> done = Checked(state, "cudaEventQuery"); !done.ok()) return done.error();
    return true;
  }

  bool Holds(const void* memory) override {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  }
  Result<void*> MakeMemory(std::size_t bytes) override {
    return Made<void*>("cudaMalloc", [bytes](void** memory) {
      if (cudaMalloc(memory, bytes) == cudaSuccess) return cudaSuccess;
      static_cast<void>(cudaGetLastError());
      try {
        c10::cuda::CUDACachingAllocator::emptyCache();  // frees memory that LibTorch caches
      } catch (const c10::Error&) {
        return cudaErrorMemoryAllocation;
      }
      return cudaMalloc(memory, bytes);
    });
  }
  Result<void*> MakePinned(std::size_t bytes) override {
    return Made<void*>("cudaHostAlloc", [bytes](void** memory) {
      return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
    });
  }
  Result<void> Copy(void* to, const void* from, std::size_t bytes, DeviceStream stream) override {
    return Checked(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream)),
        "cudaMemcpyAsync");
  }
  Result<void> Contribute(uint64_t* to, uint64_t part, const uint32_t* gave_up,
                          DeviceStream stream) override {
    return Checked(static_cast<cudaError_t>(LaunchContribution(to, part, gave_up, stream)),
                   "cudaLaunchKernel");
  }

 private:
  const int number_;
};

}  // namespace

std::unique_ptr<DeviceApi> MakeCudaDevice(int number) {
  return std::make_unique<CudaDevice>(number);
}

}  // namespace ringmaster::trainer
