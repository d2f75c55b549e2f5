#pragma once

// Removes the folder of a deleted job from the job's checkpoint volume
// (spec.checkpoint.onDelete). The operator creates a Pod that runs ringmaster-agent
// --remove-checkpoints.
//
// Programs of other jobs may have written anything to the shared volume. Each path
// component is therefore opened relative to its open parent without following links, names
// with more than one component are rejected, and other file systems are not touched. A link
// in the job's folder is removed, but not its target. Blocks. Starts no threads.

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace ringmaster::agent {

struct CheckpointOwner {
  std::string volume;  // mount path
  std::string ns;
  std::string job;
  std::string job_uid;
};

struct RemovedCheckpoints {
  bool existed = false;
  int64_t files = 0;
  int64_t bytes = 0;
};

// Removes the job's folder. After an error, files may remain. kInvalid: permanent failure.
// kUnavailable: temporary failure.
Result<RemovedCheckpoints> RemoveOwnCheckpoints(const CheckpointOwner& owner);

}  // namespace ringmaster::agent
