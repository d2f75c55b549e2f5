#pragma once

// Fills the worker's data cache while the agent goes on: a thread copies (fill.h), a timer reports.
// Used by worker_readiness.h; handlers run on the io_context's thread.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/control/messages.h"
#include "worker/agent/data_cache/fill.h"

namespace ringmaster::agent {

class DataCache {
 public:
  struct Handlers {
    // Once the data was measured, then whenever more of it has come, at most once a period.
    std::function<void(const control::DataCacheProgress&)> on_progress;
    // Once: the data is there (nothing), or why it never will be.
    std::function<void(std::optional<std::string> fault)> on_end;
  };
  // Each report may become a write of the job's status.
  static constexpr std::chrono::milliseconds kPeriod{5000};

  // Begins at once. `io` outlives this. Nothing is handled after Stop() or the destructor, which
  // waits for the thread: for as long as one read of the source takes.
  DataCache(boost::asio::io_context& io, DataCacheSettings settings, Handlers handlers,
            MemorySources memory = {}, std::chrono::milliseconds period = kPeriod);
  ~DataCache();

  void Stop();

  bool ended() const { return ended_; }
  // Nothing before the data was measured, and from the end on.
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
  FillCounters counters_;  // by the thread and by io's
  std::jthread thread_;    // last: joined before anything that it touches goes
};

}  // namespace ringmaster::agent
