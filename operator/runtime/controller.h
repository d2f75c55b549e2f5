#pragma once

// The worker threads between the queue and a reconciler. A worker takes a key, waits until the
// caches are synced and contain the operator's own writes, reconciles, and then requeues, backs off
// or forgets the key. It does not interpret keys.

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "operator/runtime/freshness.h"
#include "operator/runtime/work_queue.h"

namespace ringmaster::runtime {

// When to reconcile a key again. An Error means: retry after the key's back-off, or after the
// error's retry_after if the server named one.
struct ReconcileResult {
  std::optional<std::chrono::milliseconds> requeue_after{};  // besides what events bring
};

using Reconcile = std::function<Result<ReconcileResult>(const std::string& key)>;

// Observes the controller; metrics.h implements it.
class ControllerObserver {
 public:
  virtual ~ControllerObserver() = default;
  enum class Outcome { kSuccess, kRequeueAfter, kError };
  virtual void OnWorkers(int /*most*/) {}  // once: ControllerOptions::workers
  virtual void OnStarted() {}              // each is followed by OnReconciled
  virtual void OnReconciled(Outcome, std::chrono::nanoseconds /*took*/) {}
  virtual void OnException() {}  // one reached the controller: a bug of ours
};

struct ControllerOptions {
  int workers = 256;  // at most; threads start when all others are busy
  std::chrono::milliseconds freshness_retry{
      20};  // how soon a key whose writes are unseen is looked at again
  // The longest back-off of a key whose server or whose right to ask was away: nothing tells when a
  // part of it, as an admission webhook, is back.
  std::chrono::milliseconds transient_limit{30'000};
  const char* key_name = "job";  // in the log
};

class Controller {
 public:
  // All references outlive the controller. `reconcile` is called by several threads, never twice at
  // once for one key; an exception from it is logged as a bug and counts as an error.
  Controller(const Clock& clock, WorkQueue& queue, FreshnessGate& freshness, Reconcile reconcile,
             ControllerOptions options = {}, ControllerObserver* observer = nullptr);
  ~Controller();  // stops

  // Starts the first worker. REQUIRES: the caches are synced. Does nothing after Stop().
  void Start();

  // Takes no more keys and waits for the reconciles in progress, whose requests end by their own
  // deadlines. True when all ended within `limit`.
  bool Stop(std::chrono::milliseconds limit);

  // False when a worker has been inside one reconcile for longer than `limit`, or died.
  bool Healthy(std::chrono::milliseconds limit) const;

  // The server can be reached again: keys whose last reconcile failed because it could not are
  // looked at now, not after their back-off.
  void RetryUnreached();

  // One key, if there is one: what each worker does in a loop. For tests. False when the queue was
  // empty.
  bool ProcessOne();

 private:
  void Work(std::stop_token stop);
  void StartWorkerLocked() RINGMASTER_REQUIRES(mutex_);
  void Process(const std::string& key);
  Result<ReconcileResult> Call(const std::string& key);
  void NoteReached(const std::string& key, const Result<ReconcileResult>& result);
  std::chrono::milliseconds Retry(const std::string& key, const Error& error);

  // Constant after construction.
  const Clock& clock_;
  WorkQueue& queue_;
  FreshnessGate& freshness_;
  const Reconcile reconcile_;
  const ControllerOptions options_;
  ControllerObserver* const observer_;

  mutable Mutex mutex_;
  CondVar ended_;  // running_ fell
  bool stopped_ RINGMASTER_GUARDED_BY(mutex_) = false;
  int running_ RINGMASTER_GUARDED_BY(mutex_) = 0;
  int busy_ RINGMASTER_GUARDED_BY(mutex_) = 0;  // workers that have a key
  std::vector<std::jthread> workers_ RINGMASTER_GUARDED_BY(mutex_);
  // Keys that failed with kUnavailable or kTimeout.
  std::unordered_set<std::string> unreached_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::runtime
