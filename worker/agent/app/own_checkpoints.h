#pragma once

// Removes a deleted job's own folder on its checkpoint volume, and nothing else
// (spec.checkpoint.onDelete). What ringmaster-agent --remove-checkpoints does, in a Pod that the
// operator makes for it.
//
// The volume is shared with other jobs, whose programs may have written anything there: each step
// down is taken from an open folder and follows no link, names are refused that are more than one
// step, and nothing of another file system is touched. A link in the job's folder is removed, not
// what it leads to. Blocks; no threads.

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace ringmaster::agent {

struct CheckpointOwner {
  std::string volume;  // where it is mounted
  std::string ns;
  std::string job;
  std::string job_uid;
};

struct RemovedCheckpoints {
  bool existed = false;
  int64_t files = 0;
  int64_t bytes = 0;
};

// What was already removed stays so. kInvalid: it cannot be removed, whenever it is tried.
// kUnavailable: not now.
Result<RemovedCheckpoints> RemoveOwnCheckpoints(const CheckpointOwner& owner);

}  // namespace ringmaster::agent
