#include "worker/trainer/comm/communicator.h"

#include <utility>

namespace ringmaster::trainer {
namespace {

// How long Wait() waits beyond a deadline, because libraries detect deadlines slightly late.
constexpr std::chrono::seconds kGrace{1};

}  // namespace

Result<void> Work::Wait() {
  if (help_ && !ended()) help_(*this);
  MutexLock lock(mutex_);
  if (!ended_.WaitUntil(mutex_, deadline_ + kGrace,
                        [&]() RINGMASTER_REQUIRES(mutex_) { return outcome_.has_value(); })) {
    return Error{ErrorKind::kTimeout, "a collective operation exceeded its deadline"};
  }
  return *outcome_;
}

std::optional<Work::Span> Work::span() const {
  const MutexLock lock(mutex_);
  if (!began_at_ || !outcome_) return std::nullopt;
  return Span{*began_at_, ended_at_};
}

bool Work::ended() const {
  const MutexLock lock(mutex_);
  return outcome_.has_value();
}

void Work::Begin() {
  const MutexLock lock(mutex_);
  if (!began_at_) began_at_ = std::chrono::steady_clock::now();
}

void Work::Complete(Result<void> outcome) {
  const MutexLock lock(mutex_);
  if (outcome_) return;
  ended_at_ = std::chrono::steady_clock::now();
  outcome_ = std::move(outcome);
  ended_.NotifyAll();
}

WorkHandle Communicator::Confirm(Deadline deadline) {
  auto work = std::make_shared<Work>(deadline);
  work->Complete({});
  return work;
}

Result<void> WaitConfirmed(Communicator& communicator, const WorkHandle& work) {
  const WorkHandle confirmed = communicator.Confirm(work->deadline());
  Result<void> done = work->Wait();
  return done.ok() ? confirmed->Wait() : done;
}

}  // namespace ringmaster::trainer
