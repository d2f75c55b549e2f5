#pragma once

// The last message and the exit code of a failed rank, from which the launcher decides what to do.
// Pure functions, used by ringmaster-train and the library.

#include <optional>
#include <string>

#include "common/base/result.h"
#include "worker/trainer/elastic/world_entry.h"
#include "worker/trainer/gpu/gpu_fault.h"

namespace ringmaster::trainer {

struct RankFailure {
  std::string message;
  int exit_code = 0;
};

// Returns the message and exit code for a rank that `error` has ended. `fault` is CUDA's error if
// the rank's GPU (`uuid`) is unusable; this fault is then the cause of all other errors.
RankFailure FailureOf(const Error& error, SessionEnd end, const std::optional<GpuFault>& fault,
                      const std::string& uuid);

}  // namespace ringmaster::trainer
