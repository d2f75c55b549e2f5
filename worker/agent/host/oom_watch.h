#pragma once

// Detects whether a process of this worker was killed because the container ran out of memory, by
// reading the kernel's count of such kills after each process exit. If the kubelet lets the kernel
// kill the whole container (memory.oom.group, the default with control groups version 2), the agent
// is killed too, and the container's status contains the reason.
//
// Single-threaded. Callers pass the current time.

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/control/membership.h"
#include "common/process/child_reaper.h"
#include "worker/agent/host/memory_group.h"

namespace ringmaster::agent {

class OomWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Ignores kills that the kernel counted before this call.
  explicit OomWatch(std::optional<MemoryGroup> group = MemoryGroup::Find());

  // Returns the out-of-memory kill of a process that has just ended; empty if it ended for another
  // reason. Matches each kill with at most one exit, and only with an exit soon after the kill,
  // because the kernel may also have killed other processes of the container.
  std::optional<control::OutOfMemory> Explain(const ProcessEnd& end, Time now);

 private:
  const std::optional<MemoryGroup> group_;
  std::int64_t seen_ = 0;         // number of kills
  std::int64_t unexplained_ = 0;  // number of kills not yet matched with an exit
  Time seen_at_{};                // time of the newest kill
};

}  // namespace ringmaster::agent
