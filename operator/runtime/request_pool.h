#pragma once

// Runs requests to the API server in parallel and shares the capacity fairly between jobs. There
// are two kinds of requests: the first request of a job that has no other requests, and all
// others. At most 32 requests of each kind are in flight. The other requests of a job wait for its
// first request. Jobs take turns, except that every second turn goes to the job whose requests
// have waited longest: otherwise a job would get fewer and fewer turns while jobs arrive faster
// than they are served. A job that creates 1,000 Pods keeps 32 requests in flight, but the first
// requests of other jobs do not wait for it, and many new jobs cannot starve it. Used by the
// actor.
//
//   std::vector<std::function<void()>> creates = ...;   // each writes its result into its own slot
//   pool.RunAll(job_key, std::move(creates));           // returns when all have ended

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
  // Starts threads only when they are needed.
  explicit RequestPool(std::size_t in_flight = 32) : limit_(in_flight) {}
  ~RequestPool();  // runs the queued requests, then joins the threads

  // Runs every closure once, and the first before the others. Blocks until all have ended. May run
  // the first closure on the caller's thread, which must not be a thread of the pool. Closures must
  // not throw. If one does, it is logged as a bug and counts as ended.
  void RunAll(const std::string& key, std::vector<std::function<void()>> closures);

  // Queues one closure and returns. The closure itself must report that it has ended.
  void Post(const std::string& key, std::function<void()> closure);

  std::size_t queued() const;

 private:
  struct Lane {
    std::string key;
    std::deque<std::function<void()>> waiting;
    uint64_t number = 0;  // the lane's number in the order of creation
    bool open = false;    // whether its first request has ended
  };
  // The requests of one kind.
  struct Kind {
    std::deque<std::unique_ptr<Lane>> lanes;  // jobs with waiting closures; the front one is next
    std::size_t waiting = 0;                  // number of closures of this kind that may run
    std::size_t in_flight = 0;
  };
  struct Request {
    std::function<void()> run;
    std::unique_ptr<Lane> opens;  // the lane to open when the request has ended; or null
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
  // Wakes a thread for each of `requests` ready requests. Starts threads if too few are idle.
  void WakeLocked(std::size_t requests) RINGMASTER_REQUIRES(mutex_);
  // Returns the number of closures that could run now if there were enough threads.
  std::size_t ReadyLocked() const RINGMASTER_REQUIRES(mutex_);

  const std::size_t limit_;  // maximum number of requests in flight, for each kind

  mutable Mutex mutex_;
  StoppableCondVar changed_;
  Kind first_ RINGMASTER_GUARDED_BY(mutex_);
  Kind turns_ RINGMASTER_GUARDED_BY(mutex_);
  bool for_the_oldest_ RINGMASTER_GUARDED_BY(mutex_) = false;  // whether the oldest lane is next
  uint64_t made_ RINGMASTER_GUARDED_BY(mutex_) = 0;            // number of lanes created
  std::map<std::string, Lane*, std::less<>> lanes_ RINGMASTER_GUARDED_BY(mutex_);
  // Number of threads that wait for a closure or are about to wait.
  std::size_t idle_ RINGMASTER_GUARDED_BY(mutex_) = 0;
  std::vector<std::jthread> threads_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::runtime
