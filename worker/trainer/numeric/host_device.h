#pragma once

// Marks functions that hosts and GPUs share: nvcc compiles them for both, other compilers see
// nothing.

#if defined(__CUDACC__)
#define RINGMASTER_HOST_DEVICE __host__ __device__
#else
#define RINGMASTER_HOST_DEVICE
#endif
