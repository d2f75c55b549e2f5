#include "worker/trainer/comm/nccl/abort_limit.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <unistd.h>
#include <utility>

namespace ringmaster::trainer {
namespace {

std::atomic<bool> training_ended = false;

}  // namespace

AbortLimit::AbortLimit(std::chrono::milliseconds limit,
                       std::function<void(const std::string& what)> end)
    : limit_(limit),
      end_(std::move(end)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

AbortLimit::~AbortLimit() = default;

AbortLimit::Watch::Watch(AbortLimit& limit, std::string what) : limit_(limit) {
  const MutexLock lock(limit_.mutex_);
  number_ = limit_.next_++;
  limit_.calls_[number_] = {std::move(what), std::chrono::steady_clock::now() + limit_.limit_};
  limit_.changed_.NotifyAll();
}

AbortLimit::Watch::~Watch() {
  const MutexLock lock(limit_.mutex_);
  limit_.calls_.erase(number_);
}

void AbortLimit::Run(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    if (calls_.empty()) {
      changed_.Wait(mutex_, stop, [&]() RINGMASTER_REQUIRES(mutex_) { return !calls_.empty(); });
      continue;
    }
    const auto [number, first] = *calls_.begin();
    const bool over = changed_.WaitUntil(
        mutex_, stop, first.deadline,
        [&, n = number]() RINGMASTER_REQUIRES(mutex_) { return !calls_.contains(n); });
    if (over || stop.stop_requested()) continue;
    calls_.erase(number);
    lock.Unlock();
    end_(first.what);
    lock.Lock();
  }
}

void NoteTrainingEnded() { training_ended = true; }

void EndProcessThatHangs(const std::string& what) {
  if (training_ended) {
    std::fprintf(stderr, "ringmaster-train: %s did not return in time after training ended\n",
                 what.c_str());
    std::fflush(nullptr);
    ::_exit(0);
  }
  std::fprintf(stderr,
               "ringmaster-train: %s did not return in time: this process can no longer use its "
               "GPU and exits so that it is restarted\n",
               what.c_str());
  std::fflush(stderr);
  ::kill(::getpid(), SIGKILL);
  ::_exit(1);
}

}  // namespace ringmaster::trainer
