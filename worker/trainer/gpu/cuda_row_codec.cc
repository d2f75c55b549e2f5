#include "worker/trainer/gpu/cuda_row_codec.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "worker/trainer/comm/nccl/abort_limit.h"
#include "worker/trainer/comm/nccl/event_pool.h"
#include "worker/trainer/gpu/cuda_device.h"
#include "worker/trainer/kernels/row_codec.h"

namespace ringmaster::trainer {
namespace {

// Events are polled continuously for kEager, then once every kBetweenLooks.
constexpr std::chrono::microseconds kEager{500};
constexpr std::chrono::microseconds kBetweenLooks{50};
// How long Quiesce() waits: much longer than a step's forward and backward passes take.
constexpr std::chrono::seconds kQuietLimit{30};

Result<void> Launched(int error, const char* what) {
  if (error == 0) return {};
  return Error{ErrorKind::kUnavailable,
               std::string(what) + " gradients on the GPU: CUDA reported \"" +
                   cudaGetErrorString(static_cast<cudaError_t>(error)) + "\""};
}

int64_t CountOf(std::span<const float> values) { return static_cast<int64_t>(values.size()); }

class CudaRowCodec final : public RowCodec {
 public:
  // Uses a stream of LibTorch, so that LibTorch's allocator tracks the use of memory. Like the
  // communicators' streams, this stream has a higher priority than computation.
  CudaRowCodec(int number, Compression compression)
      : RowCodec(compression),
        number_(static_cast<c10::DeviceIndex>(number)),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, number_)),
        events_(std::make_shared<Events>(number)),
        device_(*events_->device) {}

  std::shared_ptr<std::byte> Allocate(std::size_t bytes) override {
    const c10::cuda::CUDAStreamGuard on(stream_);
    auto memory = std::make_shared<at::Tensor>(
        at::zeros({static_cast<int64_t>(bytes)},
                  at::TensorOptions(at::kByte).device(at::Device(at::kCUDA, number_))));
    return {memory, static_cast<std::byte*>(memory->data_ptr())};
  }

  Result<Mark> Computed() override { return MarkOn(device_.ComputingStream()); }

  Result<void> Attach() override {
    if (Result<void> used = device_.Use(); !used.ok()) return used;
    c10::cuda::setCurrentCUDAStream(stream_);
    return {};
  }
  Result<void> StartAfter(const Mark& mark) override {
    return device_.Follow(stream_.stream(), mark.get());
  }

  Result<void> Encode(std::span<const float> values, std::span<const float> carried,
                      std::span<float> left, std::span<std::byte> encoded) override {
    return Launched(
        LaunchEncode(compression(), values.data(), carried.empty() ? nullptr : carried.data(),
                     left.data(), encoded.data(), CountOf(values), stream_.stream()),
        "encoding");
  }
  Result<void> Decode(std::span<const std::byte> encoded, std::span<float> values) override {
    return Launched(LaunchDecode(compression(), encoded.data(), values.data(), CountOf(values),
                                 stream_.stream()),
                    "decoding");
  }
  Result<void> DecodeAdd(std::span<const std::byte> encoded, std::span<float> values) override {
    return Launched(LaunchDecodeAdd(compression(), encoded.data(), values.data(), CountOf(values),
                                    stream_.stream()),
                    "adding");
  }
  Result<void> Add(std::span<const float> carried, std::span<float> values) override {
    return Launched(LaunchAdd(carried.data(), values.data(), CountOf(values), stream_.stream()),
                    "adding");
  }
  Result<void> Zero(std::span<float> values) override {
    return Launched(cudaMemsetAsync(values.data(), 0, values.size_bytes(), stream_.stream()),
                    "clearing the residuals of");
  }

  // Polls the GPU, like comm/nccl, so that a GPU that hangs does not block the thread. The wait
  // includes earlier kernels of the backward pass.
  Result<void> Finish(Deadline deadline) override {
    const Result<Mark> last = MarkOn(stream_.stream());
    if (!last.ok()) return last.error();
    const auto asked = std::chrono::steady_clock::now();
    for (;;) {
      const Result<bool> done = device_.Done(last->get());
      if (!done.ok()) return done.error();
      if (*done) return {};
      const auto now = std::chrono::steady_clock::now();
      if (now > deadline) {
        return Error{ErrorKind::kTimeout, "the GPU did not encode gradients in time"};
      }
      if (now - asked < kEager) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kBetweenLooks);
      }
    }
  }

  void Quiesce() override {
    const Result<void> done = Finish(std::chrono::steady_clock::now() + kQuietLimit);
    if (!done.ok() && done.error().kind == ErrorKind::kTimeout) {
      EndProcessThatHangs("encoding gradients on the GPU");
    }
  }

 private:
  // Marks share the events and may outlive the codec.
  struct Events {
    explicit Events(int number) : device(MakeCudaDevice(number)), pool(*device) {}
    std::unique_ptr<DeviceApi> device;
    EventPool pool;
  };

  // Returns a mark that completes once all work that is now on `stream` has ended.
  Result<Mark> MarkOn(DeviceStream stream) {
    const Result<DeviceEvent> event = events_->pool.Take();
    if (!event.ok()) return event.error();
    Mark mark(*event, [events = events_](DeviceEvent taken) { events->pool.Return(taken); });
    const Result<void> recorded = device_.Record(*event, stream);
    if (!recorded.ok()) return recorded.error();
    return mark;
  }

  const c10::DeviceIndex number_;
  const c10::cuda::CUDAStream stream_;
  const std::shared_ptr<Events> events_;
  DeviceApi& device_;  // the device of events_
};

}  // namespace

Result<std::unique_ptr<RowCodec>> MakeCudaRowCodec(int number, Compression compression) {
  if (compression == Compression::kNone) return std::unique_ptr<RowCodec>();
  try {
    return std::unique_ptr<RowCodec>(std::make_unique<CudaRowCodec>(number, compression));
  } catch (const c10::Error& error) {
    return Error{ErrorKind::kUnavailable,
                 std::string("creating a stream on the GPU: ") + error.what_without_backtrace()};
  }
}

}  // namespace ringmaster::trainer
