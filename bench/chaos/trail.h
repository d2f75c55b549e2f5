#pragma once

// Follows the audit logs that the ranks of a job write (worker/trainer/telemetry/audit_log.h),
// while they write them: when was which step applied, and in which world.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/control/membership.h"

namespace ringmaster::chaos {

using Time = std::chrono::steady_clock::time_point;

// A step that somebody applied for the first time.
struct Applied {
  Time seen;  // when the kernel said that it was written
  int64_t step = 0;
  control::Epoch epoch;
  int world_size = 0;  // 0: its world was never told
};

// Reads on a thread of its own, which sleeps until a log grows (inotify(7)): a run that fills all
// cores is not slowed by being watched. Thread-safe.
class Trail {
 public:
  // REQUIRES: `folder` exists and has no logs yet.
  explicit Trail(std::string folder);
  ~Trail();
  Trail(const Trail&) = delete;
  Trail& operator=(const Trail&) = delete;

  // Blocks until the newest step satisfies `wanted`, or the limit passed.
  bool Await(std::chrono::milliseconds limit, const std::function<bool(const Applied&)>& wanted);

  std::vector<Applied> steps() const;  // in the order in which they were first seen
  Applied newest() const;

 private:
  struct File {
    int descriptor = -1;
    std::string rest;  // a line that is not complete yet
  };

  void Follow(const std::stop_token& stop);
  std::set<std::string> Grown() const;  // names of files that were written to
  void Read(const std::string& name);
  void Take(const std::string& line, Time now);

  const std::string folder_;
  const int events_;                           // of inotify
  const int ended_;                            // an eventfd
  std::map<std::string, File> files_;          // of the thread
  std::map<control::Epoch, int> world_sizes_;  // of the thread

  mutable Mutex mutex_;
  CondVar grown_;
  std::vector<Applied> steps_ RINGMASTER_GUARDED_BY(mutex_);

  std::jthread thread_;  // last member: it ends first
};

}  // namespace ringmaster::chaos
