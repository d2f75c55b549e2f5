#include "operator/runtime/controller.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace ringmaster::runtime {

namespace {

// Returns true if the server could not be reached or did not answer in time.
bool IsUnreached(ErrorKind kind) {
  return kind == ErrorKind::kUnavailable || kind == ErrorKind::kTimeout;
}

bool PassesByItself(ErrorKind kind) {
  return IsUnreached(kind) || kind == ErrorKind::kThrottled || kind == ErrorKind::kUnauthorized ||
         kind == ErrorKind::kConflict;
}

}  // namespace

Controller::Controller(const Clock& clock, WorkQueue& queue, FreshnessGate& freshness,
                       Reconcile reconcile, ControllerOptions options, ControllerObserver* observer)
    : clock_(clock),
      queue_(queue),
      freshness_(freshness),
      reconcile_(std::move(reconcile)),
      options_(options),
      observer_(observer) {
  if (observer_ != nullptr) observer_->OnWorkers(options_.workers);
}

Controller::~Controller() { (void)Stop(std::chrono::milliseconds(0)); }

void Controller::Start() {
  const MutexLock lock(mutex_);
  if (!stopped_) StartWorkerLocked();
}

void Controller::StartWorkerLocked() {
  ++running_;
  workers_.emplace_back([this](std::stop_token stop) { Work(stop); });
}

bool Controller::Stop(std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  MutexLock lock(mutex_);
  stopped_ = true;
  for (std::jthread& worker : workers_) worker.request_stop();
  queue_.ShutDown();
  // The remaining keys stay in the queue. The next process adds them again from its caches.
  const bool ended = ended_.WaitUntil(
      mutex_, until, [this]() RINGMASTER_REQUIRES(mutex_) { return running_ == 0; });
  if (!ended) return false;  // the destructor waits for the workers, or the process ends
  std::vector<std::jthread> workers = std::move(workers_);
  lock.Unlock();
  return true;
}

bool Controller::Healthy(std::chrono::milliseconds limit) const {
  const MutexLock lock(mutex_);
  return running_ == static_cast<int>(workers_.size()) && queue_.LongestInProgress() < limit;
}

void Controller::RetryUnreached() {
  std::unordered_set<std::string> keys;
  {
    const MutexLock lock(mutex_);
    keys.swap(unreached_);
  }
  for (const std::string& key : keys) {
    queue_.Forget(key);
    queue_.Add(key);
  }
}

bool Controller::ProcessOne() {
  const std::optional<std::string> key = queue_.TryPop();
  if (!key) return false;
  Process(*key);
  return true;
}

void Controller::Work(std::stop_token stop) {
  while (const std::optional<std::string> key = queue_.Pop(stop)) {
    {
      const MutexLock lock(mutex_);
      // A reconcile mostly waits for the API server, so let another worker take the next key.
      if (++busy_ == running_ && running_ < options_.workers && !stopped_) StartWorkerLocked();
    }
    Process(*key);
    const MutexLock lock(mutex_);
    --busy_;
  }
  const MutexLock lock(mutex_);
  --running_;
  ended_.NotifyAll();
}

void Controller::Process(const std::string& key) {
  if (!freshness_.Fresh(key)) {
    // The cache does not contain the operator's write yet. An event of the job may queue the key
    // before the delay ends.
    queue_.AddAfter(key, options_.freshness_retry);
    queue_.Done(key);
    return;
  }
  const Clock::Time started = clock_.Now();
  if (observer_ != nullptr) observer_->OnStarted();
  Result<ReconcileResult> result = Call(key);
  NoteReached(key, result);
  const auto took = clock_.Now() - started;
  auto outcome = ControllerObserver::Outcome::kSuccess;
  if (!result.ok()) {
    outcome = ControllerObserver::Outcome::kError;
    const auto delay = Retry(key, result.error());
    LogWarn(
        "Failed to reconcile, retrying",
        {{options_.key_name, key}, {"error", result.error().message}, {"delay_ms", delay.count()}});
  } else {
    queue_.Forget(key);
    if (result->requeue_after) {
      outcome = ControllerObserver::Outcome::kRequeueAfter;
      queue_.AddAfter(key, *result->requeue_after);
    }
  }
  if (observer_ != nullptr) observer_->OnReconciled(outcome, took);
  queue_.Done(key);
}

Result<ReconcileResult> Controller::Call(const std::string& key) {
  try {
    return reconcile_(key);
  } catch (const std::exception& thrown) {
    if (observer_ != nullptr) observer_->OnException();
    return Error{ErrorKind::kInternal, std::string("unhandled exception: ") + thrown.what()};
  }
}

void Controller::NoteReached(const std::string& key, const Result<ReconcileResult>& result) {
  const bool unreached = !result.ok() && IsUnreached(result.error().kind);
  const MutexLock lock(mutex_);
  if (unreached) {
    unreached_.insert(key);
  } else {
    unreached_.erase(key);
  }
}

std::chrono::milliseconds Controller::Retry(const std::string& key, const Error& error) {
  const auto delay = PassesByItself(error.kind)
                         ? queue_.AddAfterFailure(key, options_.transient_limit)
                         : queue_.AddAfterFailure(key);
  // Do not retry before the time that the server specified. The queue keeps the earlier of two
  // deadlines, so replace the deadline.
  if (error.retry_after <= delay) return delay;
  queue_.Postpone(key, error.retry_after);
  return error.retry_after;
}

}  // namespace ringmaster::runtime
