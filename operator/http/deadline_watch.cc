#include "operator/http/deadline_watch.h"

#include <utility>

namespace ringmaster::http {

DeadlineWatch::DeadlineWatch() : thread_([this](std::stop_token stop) { Work(stop); }) {}

DeadlineWatch::Guard::Guard(DeadlineWatch& owner, Time deadline, std::function<void()> on_passed)
    : owner_(owner) {
  const MutexLock lock(owner_.mutex_);
  armed_ = owner_.armed_.emplace(deadline, std::move(on_passed));
  if (armed_ == owner_.armed_.begin()) owner_.changed_.NotifyOne();
}

DeadlineWatch::Guard::~Guard() {
  const MutexLock lock(owner_.mutex_);
  owner_.armed_.erase(armed_);
}

void DeadlineWatch::Work(std::stop_token stop) {
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    const Time now = std::chrono::steady_clock::now();
    Time next = now + std::chrono::hours(1);
    for (auto& [deadline, on_passed] : armed_) {
      if (!on_passed) continue;
      if (deadline > now) {
        next = deadline;
        break;
      }
      std::exchange(on_passed, nullptr)();
    }
    const auto earlier = [&]() RINGMASTER_REQUIRES(mutex_) {
      for (const auto& [deadline, on_passed] : armed_) {
        if (on_passed) return deadline < next;
      }
      return false;
    };
    changed_.WaitUntil(mutex_, stop, next, earlier);
  }
}

}  // namespace ringmaster::http
