#pragma once

// Marks a loop-heavy function to be compiled for several generations of x86-64 processors; the best
// one that the machine has is chosen when the program is loaded. Results may differ in the last
// bits between generations (fused multiply-add), never between runs on one.
//
// Not under sanitizers, whose instrumentation does not survive that early choice.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define RINGMASTER_VECTORISED \
  __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define RINGMASTER_VECTORISED
#endif
