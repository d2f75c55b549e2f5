#include "worker/trainer/comm/nccl/abort_limit.h"

#include <cstdio>
#include <unistd.h>
#include <utility>

namespace ringmaster::trainer {

AbortLimit::AbortLimit(std::chrono::milliseconds limit,
                       std::function<void(const std::string& what)> end)
    : limit_(limit),
      end_(std::move(end)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

AbortLimit::~AbortLimit() = default;

AbortLimit::Watch::Watch(AbortLimit& limit, std::string what) : limit_(limit) {
  const std::lock_guard lock(limit_.mutex_);
  number_ = limit_.next_++;
  limit_.calls_[number_] = {std::move(what), std::chrono::steady_clock::now() + limit_.limit_};
  limit_.changed_.notify_all();
}

AbortLimit::Watch::~Watch() {
  const std::lock_guard lock(limit_.mutex_);
  limit_.calls_.erase(number_);
}

void AbortLimit::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (calls_.empty()) {
      changed_.wait(lock, stop, [&] { return !calls_.empty(); });
      continue;
    }
    const auto [number, first] = *calls_.begin();
    const bool over = changed_.wait_until(lock, stop, first.deadline,
                                          [&, n = number] { return !calls_.contains(n); });
    if (over || stop.stop_requested()) continue;
    calls_.erase(number);
    lock.unlock();
    end_(first.what);
    lock.lock();
  }
}

void EndProcessThatHangs(const std::string& what) {
  std::fprintf(stderr,
               "ringmaster-train: %s did not return in time: this process can no longer use its "
               "GPU and ends, so that it is started anew\n",
               what.c_str());
  std::fflush(stderr);
  _exit(1);
}

}  // namespace ringmaster::trainer
