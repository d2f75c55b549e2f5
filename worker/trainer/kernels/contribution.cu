#include <cuda_runtime.h>

#include "worker/trainer/kernels/contribution.h"
#include "worker/trainer/kernels/launch.h"

namespace ringmaster::trainer {
namespace {

constexpr unsigned kWarp = 32;

// `gave_up` is volatile: the kernel must read it from host memory, and only when it runs.
__global__ void Contribute(uint64_t* to, uint64_t part, const volatile uint32_t* gave_up) {
  if (threadIdx.x == 0) *to = *gave_up == 0 ? part : 0;
}

}  // namespace

int LaunchContribution(uint64_t* to, uint64_t part, const uint32_t* gave_up, void* stream) {
  return Launch(Contribute, dim3(1), kWarp, stream, to, part, gave_up);
}

}  // namespace ringmaster::trainer
