#pragma once

// Exponential back-off with jitter. Used by the reflectors, the work queue, the agent's reconnects
// and the quota retries. A pure function, so that tests can cover policies with tables.

#include <chrono>

namespace ringmaster {

struct BackoffOptions {
  std::chrono::milliseconds initial{100};
  std::chrono::milliseconds limit{300'000};
  double factor = 2.0;
  double jitter = 0.0;  // the delay is stretched by up to this share of itself
};

// The delay before try number `failures` + 1, after `failures` >= 1 failures in a row. `random` in
// [0, 1) places the delay within its jitter. The limit holds before jitter.
std::chrono::milliseconds BackoffDelay(const BackoffOptions& options, int failures, double random);

}  // namespace ringmaster
