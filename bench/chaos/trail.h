#pragma once

// Reads the audit logs while the ranks of a job write them (worker/trainer/telemetry/audit_log.h),
// to find out when each step was applied, and in which world.

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

// A step that was applied for the first time.
struct Applied {
  Time seen;  // when the kernel reported the write
  int64_t step = 0;
  control::Epoch epoch;
  int world_size = 0;  // 0: unknown, because no log has described the world
};

// Reads the logs on a separate thread. The thread sleeps until a log grows (inotify(7)), so that it
// does not slow down a run that uses all cores. Thread-safe.
class Trail {
 public:
  // REQUIRES: `folder` exists and has no logs yet.
  explicit Trail(std::string folder);
  ~Trail();
  Trail(const Trail&) = delete;
  Trail& operator=(const Trail&) = delete;

  // Blocks until the newest step satisfies `wanted`. Returns false once `limit` has passed.
  bool Await(std::chrono::milliseconds limit, const std::function<bool(const Applied&)>& wanted);

  std::vector<Applied> steps() const;  // in the order of first appearance
  Applied newest() const;

 private:
  struct File {
    int descriptor = -1;
    std::string rest;  // an incomplete line
  };

  void Follow(const std::stop_token& stop);
  std::set<std::string> Grown() const;  // returns the names of the files that have grown
  void Read(const std::string& name);
  void Take(const std::string& line, Time now);

  const std::string folder_;
  const int events_;                           // an inotify descriptor
  const int ended_;                            // an eventfd
  std::map<std::string, File> files_;          // used only by thread_
  std::map<control::Epoch, int> world_sizes_;  // used only by thread_

  mutable Mutex mutex_;
  CondVar grown_;
  std::vector<Applied> steps_ RINGMASTER_GUARDED_BY(mutex_);

  std::jthread thread_;  // the last member, so that it is joined first
};

}  // namespace ringmaster::chaos
