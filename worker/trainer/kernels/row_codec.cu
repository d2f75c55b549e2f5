#include <cuda_runtime.h>

#include "worker/trainer/compression/codes.h"
#include "worker/trainer/kernels/launch.h"
#include "worker/trainer/kernels/row_codec.h"

namespace ringmaster::trainer {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarp = 32;
constexpr int64_t kMostBlocks = 4096;  // maximum number of blocks; threads loop over more data

static_assert(kScaleChunk == kThreads,
              "a block encodes one chunk at a time, one number per thread");

// Returns the largest of the warp's values to all threads of the warp.
__device__ uint32_t LargestOfWarp(uint32_t value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800  // Turing lacks __reduce_max_sync()
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    const uint32_t other = __shfl_xor_sync(0xffffffffU, value, lanes);
    value = other > value ? other : value;
  }
  return value;
#else
  return __reduce_max_sync(0xffffffffU, value);
#endif
}

// Returns the largest of the block's values to all threads of the block.
__device__ uint32_t LargestOfBlock(uint32_t value) {
  __shared__ uint32_t of_warp[kThreads / kWarp];
  const uint32_t largest = LargestOfWarp(value);
  __syncthreads();  // waits until all threads have read the previous values
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = largest;
  __syncthreads();
  uint32_t all = 0;
  for (const uint32_t one : of_warp) all = one > all ? one : all;
  return all;
}

template <typename Format>
__global__ void EncodeRow(const float* __restrict__ values, const float* carried, float* left,
                          std::byte* __restrict__ encoded, int64_t count) {
  auto* const codes = reinterpret_cast<typename Format::Code*>(encoded);
  auto* const scales = reinterpret_cast<ScaleCode*>(codes + count);
  const int64_t chunks = (count + kThreads - 1) / kThreads;
  for (int64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const int64_t i = chunk * kThreads + threadIdx.x;
    const bool here = i < count;
    float value = here ? values[i] : 0;
    if (here && carried != nullptr) value += carried[i];
    float down = 1;
    float up = 1;
    if constexpr (Format::kScaled) {
      const uint32_t size = BitsOf(value) & kFloatSize;
      const ScaleCode scale = ScaleFor<Format>(LargestOfBlock(size < kFloatInfinity ? size : 0));
      if (threadIdx.x == 0) {
        scales[chunk] = scale;
        const bool last = chunk + 1 == chunks;
        constexpr auto kCodeBytes = static_cast<int64_t>(sizeof(typename Format::Code));
        if (last && chunks % kCodeBytes != 0) scales[chunks] = 0;
      }
      down = InverseOf(scale);
      up = ScaleOf(scale);
    }
    if (!here) continue;
    const typename Format::Code code = Format::Of(value * down);
    codes[i] = code;
    left[i] = Remainder(value, Format::ToFloat(code) * up);
  }
}

template <typename Format, bool add>
__global__ void DecodeRow(const std::byte* __restrict__ encoded, float* __restrict__ values,
                          int64_t count) {
  const auto* const codes = reinterpret_cast<const typename Format::Code*>(encoded);
  const auto* const scales = reinterpret_cast<const ScaleCode*>(codes + count);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    float value = Format::ToFloat(codes[i]);
    if constexpr (Format::kScaled) value *= ScaleOf(scales[i / kThreads]);
    values[i] = add ? values[i] + value : value;
  }
}

__global__ void AddRow(const float* __restrict__ carried, float* __restrict__ values,
                       int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    values[i] += carried[i];
  }
}

unsigned BlocksFor(int64_t count) {
  const int64_t wanted = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
}

// Calls `launch` with a value of the format's type.
template <typename LaunchFormat>
int WithFormat(Compression compression, LaunchFormat launch) {
  switch (compression) {
    case Compression::kFloat16:
      return launch(Float16Code());
    case Compression::kBFloat16:
      return launch(BFloat16Code());
    case Compression::kFloat8E4M3:
      return launch(Float8E4M3Code());
    case Compression::kFloat8E5M2:
      return launch(Float8E5M2Code());
    case Compression::kNone:
      break;
  }
  return static_cast<int>(cudaErrorInvalidValue);
}

template <bool add>
int LaunchDecodeRow(Compression compression, const std::byte* encoded, float* values, int64_t count,
                    void* stream) {
  if (count == 0) return 0;
  return WithFormat(compression, [&](auto format) {
    return Launch(DecodeRow<decltype(format), add>, dim3(BlocksFor(count)), kThreads, stream,
                  encoded, values, count);
  });
}

}  // namespace

int LaunchEncode(Compression compression, const float* values, const float* carried, float* left,
                 std::byte* encoded, int64_t count, void* stream) {
  if (count == 0) return 0;
  return WithFormat(compression, [&](auto format) {
    return Launch(EncodeRow<decltype(format)>, dim3(BlocksFor(count)), kThreads, stream, values,
                  carried, left, encoded, count);
  });
}

int LaunchDecode(Compression compression, const std::byte* encoded, float* values, int64_t count,
                 void* stream) {
  return LaunchDecodeRow<false>(compression, encoded, values, count, stream);
}

int LaunchDecodeAdd(Compression compression, const std::byte* encoded, float* values, int64_t count,
                    void* stream) {
  return LaunchDecodeRow<true>(compression, encoded, values, count, stream);
}

int LaunchAdd(const float* carried, float* values, int64_t count, void* stream) {
  if (count == 0) return 0;
  return Launch(AddRow, dim3(BlocksFor(count)), kThreads, stream, carried, values, count);
}

}  // namespace ringmaster::trainer
