#pragma once

// Requests to the API server in parallel, shared fairly: 32 threads take one request at a time,
// round-robin over the jobs that have some waiting. A job with 1,000 Pods to create gets all
// threads while it is alone; a second job's first request waits for one free thread, not for the
// 1,000. Used by the reconciler's act step.
//
//   std::vector<std::function<void()>> creates = ...;   // each writes its result into its own slot
//   pool.RunAll(job_key, std::move(creates));           // returns when all ran

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace ringmaster::runtime {

// Thread-safe.
class RequestPool {
 public:
  // Threads start as they are needed: an idle operator has none.
  explicit RequestPool(std::size_t threads = 32) : max_threads_(threads) {}
  ~RequestPool();  // runs what is queued, then joins

  // Runs every closure once, in order of start, and returns when the last has ended. Blocks the
  // caller, which may be any thread but one of the pool's. Closures must not throw; one that does
  // is logged as a bug and counts as ended.
  void RunAll(const std::string& key, std::vector<std::function<void()>> closures);

  // Queues one closure and returns. For work whose end is reported by itself.
  void Post(const std::string& key, std::function<void()> closure);

  std::size_t queued() const;

 private:
  struct Lane {
    std::string key;
    std::deque<std::function<void()>> waiting;
  };

  void Work(std::stop_token stop);
  void EnqueueLocked(const std::string& key, std::function<void()> closure);
  std::function<void()> TakeLocked();

  const std::size_t max_threads_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  std::deque<std::unique_ptr<Lane>>
      fresh_;  // lanes that had nothing waiting before: they go first, oldest first
  std::deque<std::unique_ptr<Lane>> turns_;  // the others with waiting closures; the front is next
  std::map<std::string, Lane*, std::less<>> lanes_;

  std::size_t idle_ = 0;     // threads that wait for a closure
  std::size_t awaited_ = 0;  // closures that no idle thread has taken yet
  std::vector<std::jthread> threads_;
};

}  // namespace ringmaster::runtime
