#pragma once

// Fills the worker's data cache while the agent continues: a thread copies and a timer reports
// progress. Used by app/worker_readiness.h; handlers run on the io_context's thread.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/result.h"
#include "common/control/agent_launcher_messages.h"
#include "worker/agent/config/config.h"
#include "worker/agent/data_cache/memory_room.h"

namespace ringmaster::agent {

// The progress of a fill. The filling thread writes the counters; any thread may read them.
struct FillCounters {
  std::atomic<std::int64_t> bytes_done{0};
  std::atomic<std::int64_t> bytes_total{-1};  // -1: not measured yet
};

// Runs in the thread of a DataCache: checks the space, copies the data and marks the copy as
// complete. Blocks. Returns at once if the folder contains a finished copy of this source. The
// error's message says what is wrong with the data or the space, and what to do. kForbidden: the
// folder contains other files; nothing is changed. kCancelled: `stop` was requested.
Result<void> FillDataCache(const DataCacheSettings& settings, const MemorySources& memory,
                           FillCounters& counters, const std::stop_token& stop);

class DataCache {
 public:
  struct Handlers {
    // Called once the size of the data is known, and then after progress, at most once per period.
    std::function<void(const control::DataCacheProgress&)> on_progress;
    // Called once, at the end, with the reason for a failure, or nothing if the copy is complete.
    std::function<void(std::optional<std::string> fault)> on_end;
  };
  // The period between reports. Each report may cause a write of the job's status.
  static constexpr std::chrono::milliseconds kPeriod{5000};

  // Starts the fill. `io` must outlive this object. No handler runs after Stop() or the destructor.
  // The destructor waits until the thread has finished its current read of the source.
  DataCache(boost::asio::io_context& io, DataCacheSettings settings, Handlers handlers,
            MemorySources memory = {}, std::chrono::milliseconds period = kPeriod);
  ~DataCache();

  void Stop();

  bool ended() const { return ended_; }
  // Returns whether the thread has not ended. The destructor then blocks if the source hangs.
  bool Running() const { return running_; }
  // Returns nothing before the data is measured and after the fill has ended.
  std::optional<control::DataCacheProgress> Progress() const;

 private:
  void Watch();
  void Report();
  void End(const Result<void>& filled);

  boost::asio::io_context& io_;
  Handlers handlers_;
  const std::chrono::milliseconds period_;
  boost::asio::steady_timer timer_;
  std::int64_t reported_ = -1;  // bytes
  bool ended_ = false;
  FillCounters counters_;  // shared by thread_ and the io_context's thread
  std::atomic<bool> running_{true};
  std::jthread thread_;  // last: joined before the members that it uses are destroyed
};

}  // namespace ringmaster::agent
