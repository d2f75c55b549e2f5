#pragma once

// The queue of keys to reconcile. A key is queued at most once and never processed twice at a time;
// a key that is added while it is in progress is queued again when it is done. Delayed adds wait in
// a heap; the earliest deadline wins. Failures back off per key, so one failing job does not slow
// others. Used by the Controller (pop, done), the Stores' listeners and timers (add).
//
// A key wakes one idle worker, and one of them waits for the next deadline: hundreds of workers may
// be idle, and to wake all of them for each key would keep the CPUs busy.

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

// Observes the queue; metrics.h implements it. Called with the queue's lock held, so only
// count.
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
  // `clock` and `observer` (may be null) outlive the queue.
  explicit WorkQueue(const Clock& clock, WorkQueueOptions options = {},
                     WorkQueueObserver* observer = nullptr);

  void Add(const std::string& key);
  void AddAfter(const std::string& key, std::chrono::nanoseconds delay);

  // Like AddAfter, but a later deadline wins as well.
  void Postpone(const std::string& key, std::chrono::nanoseconds delay);

  // Keys that are ready now are handed out in this order; later ones follow.
  void Sort(const std::function<bool(const std::string&, const std::string&)>& before);

  // Counts one more failure of the key and adds it after its back-off, which grows to `limit` at
  // most; returns the delay.
  std::chrono::milliseconds AddAfterFailure(
      const std::string& key, std::chrono::milliseconds limit = std::chrono::milliseconds::max());
  void Forget(const std::string& key);  // the key succeeded: its failures are forgotten
  int Failures(const std::string& key) const;

  // Waits for a key; it is in progress until Done(key). Nothing once `stop` is requested, or after
  // ShutDown() when the queue ran dry.
  std::optional<std::string> Pop(std::stop_token stop);
  std::optional<std::string> TryPop();  // the same without waiting
  void Done(const std::string& key);

  // No more adds; what is queued is still handed out (delayed keys are dropped).
  void ShutDown();
  // Waits until nothing is queued or in progress, at most `limit`. REQUIRES: ShutDown() was called.
  // True when drained.
  bool Drain(std::chrono::milliseconds limit);

  std::size_t depth() const;
  // How long the longest key in progress has been so; zero if none is. For health checks and
  // metrics.
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
  // Blocks until called or stopped; one worker also waits for the next deadline.
  void WaitLocked(const std::stop_token& stop) RINGMASTER_REQUIRES(mutex_);
  // Wakes the worker that began to wait last, or the one that waits for a deadline if it is alone.
  void CallOneLocked() RINGMASTER_REQUIRES(mutex_);
  void CallTimerLocked() RINGMASTER_REQUIRES(mutex_);

  // Constant after construction.
  const Clock& clock_;
  const WorkQueueOptions options_;
  WorkQueueObserver* const observer_;

  mutable Mutex mutex_;
  CondVar drained_;
  std::vector<Waiter*> waiting_ RINGMASTER_GUARDED_BY(mutex_);
  // The worker that waits for the next deadline; null when nothing is delayed or all are busy.
  Waiter* timer_ RINGMASTER_GUARDED_BY(mutex_) = nullptr;
  std::deque<std::pair<std::string, Clock::Time>> ready_ RINGMASTER_GUARDED_BY(mutex_);
  std::unordered_set<std::string> dirty_ RINGMASTER_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Clock::Time> processing_ RINGMASTER_GUARDED_BY(mutex_);
  std::priority_queue<Delayed, std::vector<Delayed>, std::greater<>> delayed_
      RINGMASTER_GUARDED_BY(mutex_);
  // The deadline that counts for a delayed key.
  std::unordered_map<std::string, Clock::Time> due_ RINGMASTER_GUARDED_BY(mutex_);
  std::unordered_map<std::string, int> failures_ RINGMASTER_GUARDED_BY(mutex_);
  std::minstd_rand random_ RINGMASTER_GUARDED_BY(mutex_){std::random_device{}()};
  bool shut_down_ RINGMASTER_GUARDED_BY(mutex_) = false;
};

}  // namespace ringmaster::runtime
