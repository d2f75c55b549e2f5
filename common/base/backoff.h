#pragma once

// Exponential back-off with jitter. The reflectors, the work queue, the agent's reconnects and the
// quota retries use it. BackoffDelay() is a pure function, which table-driven tests can check.

#include <chrono>

namespace ringmaster {

struct BackoffOptions {
  std::chrono::milliseconds initial{100};
  std::chrono::milliseconds limit{300'000};
  double factor = 2.0;
  double jitter = 0.0;  // the maximum random increase, as a fraction of the delay
};

// Returns the delay before the next attempt, after `failures` >= 1 consecutive failures. `random`
// in [0, 1) selects the jitter. The limit applies before the jitter is added.
std::chrono::milliseconds BackoffDelay(const BackoffOptions& options, int failures, double random);

}  // namespace ringmaster
