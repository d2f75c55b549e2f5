#pragma once

// The queue of keys to reconcile. A key is queued at most once and never processed concurrently; a
// key that is added while it is in progress is queued again when it is done. Delayed adds wait in a
// heap; if a key has several deadlines, the earliest applies. Failures back off per key, so that a
// failing job does not delay others. Used by the Controller, the Stores' listeners and timers.
//
// Each added key wakes only one idle worker, and only one worker waits for the next deadline. With
// hundreds of idle workers, waking all of them for each key would waste CPU time.

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <random>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace ringmaster::runtime {

// Observes the queue; metrics.h implements it. Calls are made with the queue's lock held, so
// implementations must only count.
class WorkQueueObserver {
 public:
  virtual ~WorkQueueObserver() = default;
  virtual void OnAdded() {}
  virtual void OnRetry() {}
  virtual void OnDepth(std::size_t) {}
  virtual void OnPopped(std::chrono::nanoseconds /*waited*/) {}
  virtual void OnDone(std::chrono::nanoseconds /*worked*/) {}
};

struct WorkQueueOptions {
  BackoffOptions backoff{.initial = std::chrono::milliseconds(100),
                         .limit = std::chrono::minutes(5),
                         .factor = 2.0,
                         .jitter = 0.1};
};

// Thread-safe.
class WorkQueue {
 public:
  // `clock` and `observer` (may be null) must outlive the queue.
  explicit WorkQueue(const Clock& clock, WorkQueueOptions options = {},
                     WorkQueueObserver* observer = nullptr);

  void Add(const std::string& key);
  void AddAfter(const std::string& key, std::chrono::nanoseconds delay);

  // Like AddAfter(), but replaces the key's deadline even if the new deadline is later.
  void Postpone(const std::string& key, std::chrono::nanoseconds delay);

  // Sorts the keys that are ready now. Keys that become ready later follow them.
  void Sort(const std::function<bool(const std::string&, const std::string&)>& before);

  // Counts a failure of the key and adds the key after its back-off, which grows up to `limit`.
  // Returns the delay.
  std::chrono::milliseconds AddAfterFailure(
      const std::string& key, std::chrono::milliseconds limit = std::chrono::milliseconds::max());
  void Forget(const std::string& key);  // resets the key's failure count after a success
  int Failures(const std::string& key) const;

  // Waits for a key, which is in progress until Done(key). Returns nothing if `stop` is requested,
  // or after ShutDown() if the queue is empty.
  std::optional<std::string> Pop(std::stop_token stop);
  std::optional<std::string> TryPop();  // like Pop(), but does not wait
  void Done(const std::string& key);

  // Rejects further adds and drops delayed keys. Pop() still returns the keys that are queued.
  void ShutDown();
  // Waits up to `limit` until no key is queued or in progress. Returns false if that takes longer.
  // REQUIRES: ShutDown() was called.
  bool Drain(std::chrono::milliseconds limit);

  std::size_t depth() const;
  // Returns how long the oldest key in progress has been processed; zero if there is none. Used for
  // health checks and metrics.
  std::chrono::nanoseconds LongestInProgress() const;
  std::chrono::nanoseconds TotalInProgress() const;

 private:
  struct Delayed {
    Clock::Time due;
    std::string key;
    bool operator>(const Delayed& other) const { return due > other.due; }
  };

  // A worker that waits in Pop().
  struct Waiter {
    StoppableCondVar call;
    bool called = false;
  };

  // Returns true if the key became ready, so that the caller must wake a worker.
  bool AddLocked(const std::string& key) RINGMASTER_REQUIRES(mutex_);
  void MoveDueLocked() RINGMASTER_REQUIRES(mutex_);
  std::optional<std::string> PopLocked() RINGMASTER_REQUIRES(mutex_);
  // Blocks until the worker is woken or stopped. One worker also waits for the next deadline.
  void WaitLocked(const std::stop_token& stop) RINGMASTER_REQUIRES(mutex_);
  // Wakes the last worker that began to wait. Prefers workers that do not wait for a deadline.
  void CallOneLocked() RINGMASTER_REQUIRES(mutex_);
  void CallTimerLocked() RINGMASTER_REQUIRES(mutex_);

  // Constant after construction.
  const Clock& clock_;
  const WorkQueueOptions options_;
  WorkQueueObserver* const observer_;

  mutable Mutex mutex_;
  CondVar drained_;
  std::vector<Waiter*> waiting_ RINGMASTER_GUARDED_BY(mutex_);
  // The worker that waits for the next deadline; null if no key is delayed or all workers are busy.
  Waiter* timer_ RINGMASTER_GUARDED_BY(mutex_) = nullptr;
  std::deque<std::pair<std::string, Clock::Time>> ready_ RINGMASTER_GUARDED_BY(mutex_);
  std::unordered_set<std::string> dirty_ RINGMASTER_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Clock::Time> processing_ RINGMASTER_GUARDED_BY(mutex_);
  std::priority_queue<Delayed, std::vector<Delayed>, std::greater<>> delayed_
      RINGMASTER_GUARDED_BY(mutex_);
  // The valid deadline of each delayed key. Other entries of delayed_ are stale.
  std::unordered_map<std::string, Clock::Time> due_ RINGMASTER_GUARDED_BY(mutex_);
  std::unordered_map<std::string, int> failures_ RINGMASTER_GUARDED_BY(mutex_);
  std::minstd_rand random_ RINGMASTER_GUARDED_BY(mutex_){std::random_device{}()};
  bool shut_down_ RINGMASTER_GUARDED_BY(mutex_) = false;
};

}  // namespace ringmaster::runtime
