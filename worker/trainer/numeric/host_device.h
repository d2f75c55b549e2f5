#pragma once

// Marks functions that hosts and GPUs share: nvcc compiles them for both; for other compilers the
// macro is empty.

#if defined(__CUDACC__)
#define RINGMASTER_HOST_DEVICE __host__ __device__
#else
#define RINGMASTER_HOST_DEVICE
#endif
