#pragma once

// `kubectl trainingjob logs JOB`: the lines of all ranks, agents and launchers of a job by time,
// and with -f those that come, across Pods that are replaced, until the job ends. One `kubectl
// logs` a Pod; memory is bounded, as a Pod that is ahead of the others is not read.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/kubectl.h"
#include "common/base/result.h"

namespace ringmaster::cli {

struct LogOptions {
  std::string job{};
  std::optional<int> rank{};      // of this one alone
  std::vector<int> workers{};     // of these alone, by index; empty: of all
  std::string since{};            // as kubectl takes it; empty: from the beginning
  std::optional<int64_t> tail{};  // of each Pod
  bool follow = false;
  bool timestamps = false;
  std::size_t most_requests = 64;  // Pods whose logs are read at once
  bool for_terminal = false;       // lines are made printable
};

// Writes to standard output. Blocks until all is written; with `follow`, until the job ends.
Result<void> ShowLogs(const Kubectl& kubectl, const LogOptions& options);

}  // namespace ringmaster::cli
