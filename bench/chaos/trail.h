#pragma once

// Follows the audit logs that the ranks of a job write (worker/trainer/audit_log.h), while they
// write them: when was which step applied, and in which world.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <ios>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/control/membership.h"

namespace ringmaster::chaos {

using Time = std::chrono::steady_clock::time_point;

// A step that somebody applied for the first time.
struct Applied {
  Time seen;  // a millisecond or two after it was written
  int64_t step = 0;
  control::Epoch epoch;
};

// Reads on a thread of its own. Thread-safe.
class Trail {
 public:
  explicit Trail(std::string folder);

  // Blocks until the newest step satisfies `wanted`, or the limit passed.
  bool Await(std::chrono::milliseconds limit, const std::function<bool(const Applied&)>& wanted);

  std::vector<Applied> steps() const;  // in the order in which they were first seen
  Applied newest() const;

 private:
  struct File {
    std::streamoff offset = 0;
    std::string rest;  // a line that is not complete yet
  };

  void Follow(const std::stop_token& stop);
  void Read(const std::string& path);
  void Take(const std::string& line, Time now);

  const std::string folder_;
  std::map<std::string, File> files_;  // of the thread

  mutable std::mutex mutex_;
  std::condition_variable grown_;
  std::vector<Applied> steps_;  // guarded by mutex_

  std::jthread thread_;  // last member: it ends first
};

}  // namespace ringmaster::chaos
