#pragma once

// The store through which the ranks of a world connect: each key is written once and may be read by
// all. Communicators use it. It is implemented by the agent's relay
// (world_sources/agent/agent_membership.h), by files (file_store.h) and, in tests, in memory.

#include <chrono>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::trainer {

using Deadline = std::chrono::steady_clock::time_point;

// Thread-safe.
class Store {
 public:
  virtual ~Store() = default;

  virtual Result<void> Set(const std::string& key, const std::string& value) = 0;

  // Blocks until every key exists, and returns their values in order. kTimeout: a key does not
  // exist at the deadline. kCancelled or kUnavailable: the world was abandoned.
  virtual Result<std::vector<std::string>> Get(const std::vector<std::string>& keys,
                                               Deadline deadline) = 0;
};

}  // namespace ringmaster::trainer
