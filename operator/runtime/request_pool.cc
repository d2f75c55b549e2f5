#include "operator/runtime/request_pool.h"

#include <utility>

#include "common/base/log.h"

namespace ringmaster::runtime {

RequestPool::~RequestPool() {
  std::vector<std::jthread> threads;
  {
    const std::lock_guard lock(mutex_);
    threads.swap(threads_);
  }
  for (std::jthread& thread : threads) thread.request_stop();
}

void RequestPool::RunAll(const std::string& key, std::vector<std::function<void()>> closures) {
  struct Batch {
    std::mutex mutex;
    std::condition_variable ended;
    std::size_t left;
  } batch{{}, {}, closures.size()};
  {
    const std::lock_guard lock(mutex_);
    for (std::function<void()>& closure : closures) {
      // Counts down even when the closure throws: Work() reports that, the caller must not wait for
      // ever.
      EnqueueLocked(key, [&batch, run = std::move(closure)] {
        struct CountDown {
          Batch& of;
          ~CountDown() {
            const std::lock_guard batch_lock(of.mutex);
            if (--of.left == 0) of.ended.notify_one();
          }
        } count_down{batch};
        run();
      });
    }
  }
  std::unique_lock lock(batch.mutex);
  batch.ended.wait(lock, [&] { return batch.left == 0; });
}

void RequestPool::Post(const std::string& key, std::function<void()> closure) {
  const std::lock_guard lock(mutex_);
  EnqueueLocked(key, std::move(closure));
}

std::size_t RequestPool::queued() const {
  const std::lock_guard lock(mutex_);
  std::size_t queued = 0;
  for (const auto& [key, lane] : lanes_) queued += lane->waiting.size();
  return queued;
}

void RequestPool::EnqueueLocked(const std::string& key, std::function<void()> closure) {
  auto lane = lanes_.find(key);
  if (lane == lanes_.end()) {
    fresh_.push_back(std::make_unique<Lane>(Lane{key, {}}));
    lane = lanes_.emplace(key, fresh_.back().get()).first;
  }
  lane->second->waiting.push_back(std::move(closure));
  ++awaited_;
  if (awaited_ > idle_ && threads_.size() < max_threads_) {
    threads_.emplace_back([this](std::stop_token stop) { Work(stop); });
  } else {
    changed_.notify_one();
  }
}

std::function<void()> RequestPool::TakeLocked() {
  auto& next = fresh_.empty() ? turns_ : fresh_;
  std::unique_ptr<Lane> lane = std::move(next.front());
  next.pop_front();
  std::function<void()> closure = std::move(lane->waiting.front());
  lane->waiting.pop_front();
  --awaited_;
  if (lane->waiting.empty()) {
    lanes_.erase(lane->key);
  } else {
    turns_.push_back(std::move(lane));
  }
  return closure;
}

void RequestPool::Work(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, stop, [this] { return !lanes_.empty(); });
    --idle_;
    if (lanes_.empty()) return;  // stopped
    std::function<void()> closure = TakeLocked();
    lock.unlock();
    try {
      closure();
    } catch (const std::exception& thrown) {
      LogError("A request threw an exception", {{"error", thrown.what()}});
    }
    closure = nullptr;
    lock.lock();
  }
}

}  // namespace ringmaster::runtime
