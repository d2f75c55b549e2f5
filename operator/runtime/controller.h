#pragma once

// The worker threads that call a reconciler for the keys of the queue. A worker takes a key. If the
// caches contain the operator's own writes, it reconciles the key and then requeues it, backs off
// or forgets it; otherwise it retries the key later. The controller does not interpret keys.

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

// When to reconcile a key again. After an Error, the key is retried after its back-off, or after
// the error's retry_after if the server specified one.
struct ReconcileResult {
  std::optional<std::chrono::milliseconds> requeue_after{};  // events may requeue the key earlier
};

using Reconcile = std::function<Result<ReconcileResult>(const std::string& key)>;

// Observes the controller; metrics.h implements it.
class ControllerObserver {
 public:
  virtual ~ControllerObserver() = default;
  enum class Outcome { kSuccess, kRequeueAfter, kError };
  virtual void OnWorkers(int /*most*/) {}  // called once with ControllerOptions::workers
  virtual void OnStarted() {}              // OnReconciled() always follows
  virtual void OnReconciled(Outcome, std::chrono::nanoseconds /*took*/) {}
  virtual void OnException() {}  // a reconcile threw an exception, which is a bug
};

struct ControllerOptions {
  int workers = 256;  // maximum number of threads; one starts if all others are busy
  std::chrono::milliseconds freshness_retry{
      20};  // delay before a key is retried if the caches do not contain its writes
  // The longest back-off of a key after a transient error of the API server. It is short, because
  // the operator is not notified when, for example, an admission webhook works again.
  std::chrono::milliseconds transient_limit{30'000};
  const char* key_name = "job";  // name of the key's field in log lines
};

class Controller {
 public:
  // All references must outlive the controller. Several threads call `reconcile`, but not at the
  // same time for the same key. An exception from it is logged as a bug and counts as an error.
  Controller(const Clock& clock, WorkQueue& queue, FreshnessGate& freshness, Reconcile reconcile,
             ControllerOptions options = {}, ControllerObserver* observer = nullptr);
  ~Controller();  // stops

  // Starts the first worker. REQUIRES: the caches are synced. Does nothing after Stop().
  void Start();

  // Stops taking keys and waits for the reconciles in progress, whose requests have deadlines.
  // Returns true if all reconciles ended within `limit`.
  bool Stop(std::chrono::milliseconds limit);

  // Returns false if a reconcile has taken longer than `limit`, or if a worker thread has died.
  bool Healthy(std::chrono::milliseconds limit) const;

  // Call it when the server is reachable again. Immediately retries, without back-off, the keys
  // whose last reconcile failed because the server was unreachable.
  void RetryUnreached();

  // Processes one key, as each worker does in a loop. Returns false if the queue was empty. For
  // tests.
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
  CondVar ended_;  // notified when running_ decreases
  bool stopped_ RINGMASTER_GUARDED_BY(mutex_) = false;
  int running_ RINGMASTER_GUARDED_BY(mutex_) = 0;
  int busy_ RINGMASTER_GUARDED_BY(mutex_) = 0;  // workers that have a key
  std::vector<std::jthread> workers_ RINGMASTER_GUARDED_BY(mutex_);
  // Keys that failed with kUnavailable or kTimeout.
  std::unordered_set<std::string> unreached_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::runtime
