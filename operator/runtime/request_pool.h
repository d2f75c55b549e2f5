#pragma once

// Runs requests to the API server in parallel and shares the capacity fairly between jobs. The
// first request of a job with no waiting requests is of one kind, and all others are of another; at
// most 32 requests of each kind are in flight. The other requests of a job wait for its first, so
// the first requests of many new jobs precede all others. The others take turns by job, except that
// every second turn goes to the job whose requests have waited longest: without that, a job would
// get ever fewer turns when jobs arrive faster than they are served. A job with 1,000 Pods to
// create thus keeps 32 requests in flight, the first requests of other jobs do not wait for it, and
// many new jobs cannot starve it. Used by the actor.
//
//   std::vector<std::function<void()>> creates = ...;   // each writes its result into its own slot
//   pool.RunAll(job_key, std::move(creates));           // returns when all ran

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace ringmaster::runtime {

// Thread-safe.
class RequestPool {
 public:
  // Threads start as they are needed: an idle operator has none.
  explicit RequestPool(std::size_t in_flight = 32) : limit_(in_flight) {}
  ~RequestPool();  // runs what is queued, then joins

  // Runs every closure once, the first alone, and returns when the last has ended. Blocks the
  // caller, which may be any thread but one of the pool's, and runs the first there where it need
  // not wait. Closures must not throw; one that does is logged as a bug and counts as ended.
  void RunAll(const std::string& key, std::vector<std::function<void()>> closures);

  // Queues one closure and returns. For work whose end is reported by itself.
  void Post(const std::string& key, std::function<void()> closure);

  std::size_t queued() const;

 private:
  struct Lane {
    std::string key;
    std::deque<std::function<void()>> waiting;
    uint64_t number = 0;  // in the order of creation
    bool open = false;    // its first request has ended
  };
  // One kind of requests.
  struct Kind {
    std::deque<std::unique_ptr<Lane>> lanes;  // with closures that wait; the front has its turn
    std::size_t waiting = 0;                  // closures of this kind that may run
    std::size_t in_flight = 0;
  };
  struct Request {
    std::function<void()> run;
    std::unique_ptr<Lane> opens;  // the lane to open once it has ended
  };

  void Work(std::stop_token stop);
  std::unique_ptr<Lane> NewLaneLocked(const std::string& key) RINGMASTER_REQUIRES(mutex_);
  std::unique_ptr<Lane> StartAtOnceLocked(const std::string& key) RINGMASTER_REQUIRES(mutex_);
  void EnqueueLocked(const std::string& key, std::function<void()> closure)
      RINGMASTER_REQUIRES(mutex_);
  Request TakeLocked(Kind& kind) RINGMASTER_REQUIRES(mutex_);
  Request TakeFirstLocked() RINGMASTER_REQUIRES(mutex_);
  Request TakeTurnLocked() RINGMASTER_REQUIRES(mutex_);
  void OpenLocked(std::unique_ptr<Lane> lane) RINGMASTER_REQUIRES(mutex_);
  Kind* NextLocked() RINGMASTER_REQUIRES(mutex_);
  // One thread for each of so many requests that became ready; more are started where too few wait.
  void WakeLocked(std::size_t requests) RINGMASTER_REQUIRES(mutex_);
  // The number of closures that could run now with enough threads.
  std::size_t ReadyLocked() const RINGMASTER_REQUIRES(mutex_);

  const std::size_t limit_;  // in flight, of each kind

  mutable Mutex mutex_;
  StoppableCondVar changed_;
  Kind first_ RINGMASTER_GUARDED_BY(mutex_);
  Kind turns_ RINGMASTER_GUARDED_BY(mutex_);
  bool for_the_oldest_ RINGMASTER_GUARDED_BY(mutex_) = false;  // the next turn
  uint64_t made_ RINGMASTER_GUARDED_BY(mutex_) = 0;            // lanes
  std::map<std::string, Lane*, std::less<>> lanes_ RINGMASTER_GUARDED_BY(mutex_);
  // Threads that wait for a closure, or are about to.
  std::size_t idle_ RINGMASTER_GUARDED_BY(mutex_) = 0;
  std::vector<std::jthread> threads_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::runtime
