#include "worker/trainer/comm/operation_queue.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace ringmaster::trainer {

std::chrono::milliseconds Left(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

void OperationQueue::Serve(Deadline connect_deadline) {
  Connect(connect_deadline);
  MutexLock lock(mutex_);
  connecting_ = false;
  bytes_by_waiter_ = transport_.bytes_run_by_waiter();
  for (;;) {
    wake_.Wait(mutex_, [&]() RINGMASTER_REQUIRES(mutex_) {
      return stopping_ || (!queue_.empty() && !serving_);
    });
    if (stopping_) break;
    ServeOne();
  }
  lock.Unlock();
  ended_ = true;
}

void OperationQueue::Connect(Deadline deadline) {
  const std::string connecting =
      "connecting rank " + std::to_string(world_.rank) + " of " + std::to_string(world_.size);
  try {
    const Result<void> connected = transport_.Connect(world_, deadline);
    if (connected.ok()) return;
    if (connected.error().kind == ErrorKind::kInvalid) return Break(connected.error());
    Fail(connecting, connected.error().message, deadline, transport_.missing());
  } catch (const std::exception& error) {
    Fail(connecting, error.what(), deadline, transport_.missing());
  }
}

void OperationQueue::Help(const Work& work) {
  const MutexLock lock(mutex_);
  const auto for_waiters = [&]() RINGMASTER_REQUIRES(mutex_) {
    return !queue_.empty() && queue_.front().by_waiter;
  };
  while (!serving_ && for_waiters() && !work.ended()) ServeOne();
  if (!for_waiters() || work.ended()) return;
  thread_due_ = true;  // another waiter may return before it has run `work`
}

void OperationQueue::ServeOne() {
  const Operation operation = std::move(queue_.front());
  queue_.pop_front();
  serving_ = operation.work;
  {
    const MutexUnlock unlocked(mutex_);
    Execute(operation);
  }
  serving_ = nullptr;
  if (queue_.empty()) thread_due_ = false;
  const bool for_thread = !queue_.empty() && (thread_due_ || !queue_.front().by_waiter);
  if (stopping_ || for_thread) wake_.NotifyAll();
}

void OperationQueue::Execute(const Operation& operation) {
  std::optional<Error> broken;
  {
    const MutexLock lock(mutex_);
    broken = broken_;
  }
  if (!broken) {
    try {
      operation.work->Begin();
      operation.run(operation.work->deadline());
      operation.work->Complete({});
      return;
    } catch (const std::exception& error) {
      Fail(std::string("reducing with the other ranks (") + operation.name + ")", error.what(),
           operation.work->deadline());
    }
  }
  const MutexLock lock(mutex_);
  operation.work->Complete(*broken_);
}

void OperationQueue::Fail(const std::string& doing, const std::string& reason, Deadline deadline,
                          int lost_peer) {
  const bool late = std::chrono::steady_clock::now() >= deadline;
  Break(Error{late ? ErrorKind::kTimeout : ErrorKind::kUnavailable, reason}.WithContext(doing),
        lost_peer);
}

int OperationQueue::LostPeer() {
  const MutexLock lock(mutex_);
  return broken_ ? lost_peer_ : transport_.missing();  // not broken: only Work::Wait() timed out
}

void OperationQueue::Break(Error error, int lost_peer) {
  {
    const MutexLock lock(mutex_);
    if (!broken_) {
      broken_ = std::move(error);
      lost_peer_ = lost_peer;
    }
    for (const Operation& operation : queue_) operation.work->Complete(*broken_);
    queue_.clear();
  }
  transport_.ShutDown();  // also ends the peers' waits, before their deadlines
}

bool OperationQueue::Stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  const bool connecting = connecting_;
  // If the running operation has ended, its thread returns immediately: wait for the thread.
  wake_.Wait(mutex_, [&]() RINGMASTER_REQUIRES(mutex_) { return !serving_ || !serving_->ended(); });
  const bool in_order = !connecting && !serving_ && queue_.empty() && !broken_;
  if (in_order) transport_.Leave();
  lock.Unlock();
  if (!in_order) Break(Error{ErrorKind::kCancelled, "the communicator ended"});
  wake_.NotifyAll();
  lock.Lock();
  if (!connecting) wake_.Wait(mutex_, [&]() RINGMASTER_REQUIRES(mutex_) { return !serving_; });
  return !connecting;
}

WorkHandle OperationQueue::Enqueue(const char* name, std::size_t bytes, Deadline deadline, Run run,
                                   Work::Help help) {
  auto work = std::make_shared<Work>(deadline, std::move(help));
  const MutexLock lock(mutex_);
  if (broken_) {
    work->Complete(*broken_);
    return work;
  }
  const bool by_waiter = bytes_by_waiter_ > 0 && bytes <= bytes_by_waiter_;
  queue_.push_back({name, work, std::move(run), by_waiter});
  if (!by_waiter) wake_.NotifyAll();
  return work;
}

QueuedCommunicator::QueuedCommunicator(const World& world, Deadline deadline,
                                       std::shared_ptr<Transport> transport,
                                       AbandonedConnects& abandoned_connects)
    : shared_(std::make_shared<Shared>(world, std::move(transport))),
      abandoned_connects_(abandoned_connects) {
  thread_ = std::jthread([shared = shared_, deadline] { shared->queue.Serve(deadline); });
}

QueuedCommunicator::~QueuedCommunicator() {
  if (shared_->queue.Stop()) {
    thread_.join();
  } else {
    abandoned_connects_.Take(std::move(thread_), {shared_, &shared_->queue.ended()});
  }
}

WorkHandle QueuedCommunicator::Enqueue(const char* name, std::size_t bytes, Deadline deadline,
                                       OperationQueue::Run run) {
  return shared_->queue.Enqueue(name, bytes, deadline, std::move(run),
                                [shared = std::weak_ptr(shared_)](const Work& work) {
                                  if (const auto held = shared.lock()) held->queue.Help(work);
                                });
}

void QueuedCommunicator::Abort(const std::string& reason) {
  shared_->queue.Break(Error{ErrorKind::kCancelled, reason});
}

}  // namespace ringmaster::trainer
