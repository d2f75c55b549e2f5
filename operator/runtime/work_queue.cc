#include "operator/runtime/work_queue.h"

#include <algorithm>

namespace ringmaster::runtime {

WorkQueue::WorkQueue(const Clock& clock, WorkQueueOptions options, WorkQueueObserver* observer)
    : clock_(clock), options_(options), observer_(observer) {}

void WorkQueue::Add(const std::string& key) {
  const MutexLock lock(mutex_);
  if (AddLocked(key)) CallOneLocked();
}

void WorkQueue::AddAfter(const std::string& key, std::chrono::nanoseconds delay) {
  const MutexLock lock(mutex_);
  if (shut_down_) return;
  if (delay.count() <= 0) {
    if (AddLocked(key)) CallOneLocked();
    return;
  }
  const Clock::Time due = clock_.Now() + delay;
  const auto [entry, inserted] = due_.try_emplace(key, due);
  if (!inserted && entry->second <= due) return;
  entry->second = due;
  delayed_.push({due, key});
  if (delayed_.top().due < due) return;
  if (timer_ != nullptr) {
    CallTimerLocked();
  } else {
    CallOneLocked();
  }
}

void WorkQueue::Postpone(const std::string& key, std::chrono::nanoseconds delay) {
  {
    const MutexLock lock(mutex_);
    due_.erase(key);
  }
  AddAfter(key, delay);
}

void WorkQueue::Sort(const std::function<bool(const std::string&, const std::string&)>& before) {
  const MutexLock lock(mutex_);
  std::stable_sort(ready_.begin(), ready_.end(),
                   [&](const auto& a, const auto& b) { return before(a.first, b.first); });
}

std::chrono::milliseconds WorkQueue::AddAfterFailure(const std::string& key,
                                                     std::chrono::milliseconds limit) {
  std::chrono::milliseconds delay;
  {
    const MutexLock lock(mutex_);
    std::uniform_real_distribution<double> uniform(0.0, 1.0);
    BackoffOptions backoff = options_.backoff;
    backoff.limit = std::min(backoff.limit, limit);
    delay = BackoffDelay(backoff, ++failures_[key], uniform(random_));
    if (observer_ != nullptr) observer_->OnRetry();
  }
  AddAfter(key, delay);
  return delay;
}

void WorkQueue::Forget(const std::string& key) {
  const MutexLock lock(mutex_);
  failures_.erase(key);
}

int WorkQueue::Failures(const std::string& key) const {
  const MutexLock lock(mutex_);
  const auto found = failures_.find(key);
  return found == failures_.end() ? 0 : found->second;
}

std::optional<std::string> WorkQueue::Pop(std::stop_token stop) {
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    if (std::optional<std::string> key = PopLocked()) {
      if (timer_ == nullptr && !delayed_.empty()) CallOneLocked();  // to await the next deadline
      return key;
    }
    if (shut_down_) return std::nullopt;
    WaitLocked(stop);
  }
  CallOneLocked();  // this worker may have been woken for a key, so wake another worker
  return std::nullopt;
}

void WorkQueue::WaitLocked(const std::stop_token& stop) {
  Waiter self;
  const auto called = [&self] { return self.called; };
  if (timer_ == nullptr && !delayed_.empty()) {
    timer_ = &self;
    self.call.WaitFor(mutex_, stop, delayed_.top().due - clock_.Now(), called);
    if (timer_ == &self) timer_ = nullptr;
  } else {
    waiting_.push_back(&self);
    self.call.Wait(mutex_, stop, called);
    std::erase(waiting_, &self);
  }
}

void WorkQueue::CallOneLocked() {
  if (waiting_.empty()) return CallTimerLocked();
  Waiter* const last = waiting_.back();
  waiting_.pop_back();
  last->called = true;
  last->call.NotifyOne();
}

void WorkQueue::CallTimerLocked() {
  Waiter* const timer = std::exchange(timer_, nullptr);
  if (timer == nullptr) return;
  timer->called = true;
  timer->call.NotifyOne();
}

std::optional<std::string> WorkQueue::TryPop() {
  const MutexLock lock(mutex_);
  return PopLocked();
}

void WorkQueue::Done(const std::string& key) {
  const MutexLock lock(mutex_);
  const auto found = processing_.find(key);
  if (found == processing_.end()) return;
  if (observer_ != nullptr) observer_->OnDone(clock_.Now() - found->second);
  processing_.erase(found);
  if (dirty_.contains(key)) {
    ready_.emplace_back(key, clock_.Now());
    if (observer_ != nullptr) observer_->OnDepth(ready_.size());
    CallOneLocked();
  }
  if (ready_.empty() && processing_.empty()) drained_.NotifyAll();
}

void WorkQueue::ShutDown() {
  const MutexLock lock(mutex_);
  shut_down_ = true;
  delayed_ = {};
  due_.clear();
  while (!waiting_.empty() || timer_ != nullptr) CallOneLocked();
}

bool WorkQueue::Drain(std::chrono::milliseconds limit) {
  MutexLock lock(mutex_);
  return drained_.WaitFor(mutex_, limit, [this]() RINGMASTER_REQUIRES(mutex_) {
    return ready_.empty() && processing_.empty();
  });
}

std::size_t WorkQueue::depth() const {
  const MutexLock lock(mutex_);
  return ready_.size();
}

std::chrono::nanoseconds WorkQueue::LongestInProgress() const {
  const MutexLock lock(mutex_);
  const Clock::Time now = clock_.Now();
  std::chrono::nanoseconds longest{0};
  for (const auto& [key, since] : processing_)
    longest = std::max<std::chrono::nanoseconds>(longest, now - since);
  return longest;
}

std::chrono::nanoseconds WorkQueue::TotalInProgress() const {
  const MutexLock lock(mutex_);
  const Clock::Time now = clock_.Now();
  std::chrono::nanoseconds total{0};
  for (const auto& [key, since] : processing_) total += now - since;
  return total;
}

bool WorkQueue::AddLocked(const std::string& key) {
  if (shut_down_ || !dirty_.insert(key).second) return false;
  if (observer_ != nullptr) observer_->OnAdded();
  if (processing_.contains(key)) return false;  // Done() queues it again
  ready_.emplace_back(key, clock_.Now());
  if (observer_ != nullptr) observer_->OnDepth(ready_.size());
  return true;
}

void WorkQueue::MoveDueLocked() {
  const Clock::Time now = clock_.Now();
  while (!delayed_.empty() && delayed_.top().due <= now) {
    const Delayed delayed = delayed_.top();
    delayed_.pop();
    const auto due = due_.find(delayed.key);
    if (due == due_.end() || due->second != delayed.due)
      continue;  // replaced by an earlier deadline
    due_.erase(due);
    // The caller takes the first key, so wake a worker only for further keys.
    if (AddLocked(delayed.key) && ready_.size() > 1) CallOneLocked();
  }
}

std::optional<std::string> WorkQueue::PopLocked() {
  MoveDueLocked();
  if (ready_.empty()) return std::nullopt;
  auto [key, since] = std::move(ready_.front());
  ready_.pop_front();
  dirty_.erase(key);
  const Clock::Time now = clock_.Now();
  processing_.emplace(key, now);
  if (observer_ != nullptr) {
    observer_->OnPopped(now - since);
    observer_->OnDepth(ready_.size());
  }
  return std::move(key);
}

}  // namespace ringmaster::runtime
