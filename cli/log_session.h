#pragma once

// `kubectl trainingjob logs JOB` prints the lines of all ranks, agents and launchers of a job by
// time. With -f it follows the logs until the job ends, also in replacement Pods. It runs one
// `kubectl logs` per Pod and, to bound memory, pauses reading logs that are ahead of the others.

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
  std::optional<int> rank{};      // only lines of this rank
  std::vector<int> workers{};     // only lines of these workers, by index; empty: all
  std::string since{};            // age of the oldest lines, as for kubectl; empty: all
  std::optional<int64_t> tail{};  // number of lines per Pod
  bool follow = false;
  bool timestamps = false;
  std::size_t most_requests = 64;  // maximum number of Pods whose logs are read in parallel
  bool for_terminal = false;       // whether to escape non-printable characters
};

// Writes to standard output. Blocks until all lines are written or, with `follow`, the job ends.
Result<void> ShowLogs(const Kubectl& kubectl, const LogOptions& options);

}  // namespace ringmaster::cli
