#pragma once

// Replaces CUDA's header of this name, so that the sources of our kernels run unchanged on a host,
// under the sanitizers. Has only the parts of CUDA that they use. The threads of a block take turns
// on the launching thread, in ascending order in one block and descending in the next
// (ThreadSanitizer still detects a missing __syncthreads()). Blocks run one after another, in an
// order that changes with each launch. If some threads of a block wait for others that never come,
// the process ends with an error message.

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __shared__ static  // only one block runs at a time
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned across = 1, unsigned down = 1, unsigned deep = 1)  // implicit, as in CUDA
      : x(across), y(down), z(deep) {}
};

// The index of the thread that is running. Only one launch runs at a time.
inline struct ThreadIndex { std::atomic<unsigned> x; } threadIdx;
inline dim3 blockIdx, blockDim, gridDim;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9 };
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error";
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                   cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

namespace ringmaster::trainer {

// Runs `thread` as every thread of every block, and returns when all have ended. Only one launch
// runs at a time; others wait. Returns CUDA's error code if a GPU would reject these sizes.
int RunOnHost(dim3 blocks, unsigned threads, const std::function<void()>& thread);

// During its lifetime, launches have at most this many blocks across, so that kernels whose loops
// stride over the grid take several iterations.
class FewBlocks {
 public:
  explicit FewBlocks(unsigned most);
  ~FewBlocks();
  FewBlocks(const FewBlocks&) = delete;
  FewBlocks& operator=(const FewBlocks&) = delete;
};

// During its lifetime, launches with more than `most` blocks down are rejected, as a GPU rejects
// more than 65,535.
class FewBlocksDown {
 public:
  explicit FewBlocksDown(unsigned most);
  ~FewBlocksDown();
  FewBlocksDown(const FewBlocksDown&) = delete;
  FewBlocksDown& operator=(const FewBlocksDown&) = delete;
};

// Waits until all 32 threads of the caller's warp have called it; returns their values by lane.
const uint64_t* ExchangeInWarp(uint64_t mine);
void SyncBlock();

template <typename T>
T ValueOfLane(T mine, unsigned lane) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &mine, sizeof(mine));
  const uint64_t* const all = ExchangeInWarp(bits);
  std::memcpy(&mine, &all[lane % 32], sizeof(mine));
  return mine;
}

}  // namespace ringmaster::trainer

inline void __syncthreads() { ringmaster::trainer::SyncBlock(); }

// All threads of the warp must call this function.
template <typename T>
T __shfl_xor_sync(unsigned, T value, int lanes) {
  return ringmaster::trainer::ValueOfLane(value, threadIdx.x ^ static_cast<unsigned>(lanes));
}

inline unsigned __reduce_max_sync(unsigned, unsigned value) {
  const uint64_t* const all = ringmaster::trainer::ExchangeInWarp(value);
  uint64_t largest = 0;
  for (int lane = 0; lane < 32; ++lane) largest = all[lane] > largest ? all[lane] : largest;
  return static_cast<unsigned>(largest);
}

inline unsigned long long atomicAdd(unsigned long long* sum, unsigned long long value) {
  return __atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
}
