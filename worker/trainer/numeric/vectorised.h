#pragma once

// Marks a function with loops to be compiled for several generations of x86-64 processors; the
// loader selects the best version for the machine. Results may differ in the last bits between
// generations (fused multiply-add), but not between runs on one machine.
//
// Has no effect with sanitizers, because the loader's selection cannot run instrumented code.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define RINGMASTER_VECTORISED \
  __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define RINGMASTER_VECTORISED
#endif
