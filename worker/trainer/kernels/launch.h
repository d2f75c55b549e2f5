#pragma once

// Launches a kernel on a stream (a cudaStream_t) and returns CUDA's error number, 0 for success.
// Only this code uses nvcc's launch syntax, so tests can compile the kernels for the host with the
// cuda_runtime.h of tests/unit/trainer/cuda_on_host.

#include <cuda_runtime.h>

namespace ringmaster::trainer {

template <typename... Parameters, typename... Arguments>
int Launch(void (*kernel)(Parameters...), dim3 blocks, unsigned threads, void* stream,
           Arguments... arguments) {
#if defined(__CUDACC__)
  kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(arguments...);
  return static_cast<int>(cudaGetLastError());
#else
  static_cast<void>(stream);
  return RunOnHost(blocks, threads, [&] { kernel(arguments...); });
#endif
}

}  // namespace ringmaster::trainer
