#include "operator/runtime/request_pool.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace ringmaster::runtime {
namespace {

void Run(const std::function<void()>& closure) {
  try {
    closure();
  } catch (const std::exception& thrown) {
    LogError("A request threw an exception", {{"error", thrown.what()}});
  }
}

}  // namespace

RequestPool::~RequestPool() {
  std::vector<std::jthread> threads;
  {
    const MutexLock lock(mutex_);
    threads.swap(threads_);
  }
  for (std::jthread& thread : threads) thread.request_stop();
}

void RequestPool::RunAll(const std::string& key, std::vector<std::function<void()>> closures) {
  if (closures.empty()) return;
  struct Batch {
    Mutex mutex;
    CondVar ended;
    std::size_t left RINGMASTER_GUARDED_BY(mutex);
  } batch{{}, {}, closures.size()};
  // Count down even if the closure throws, so that the caller does not wait forever. Run() logs the
  // exception.
  const auto counted = [&batch](std::function<void()> closure) {
    return [&batch, run = std::move(closure)] {
      struct CountDown {
        Batch& of;
        ~CountDown() {
          const MutexLock batch_lock(of.mutex);
          if (--of.left == 0) of.ended.NotifyOne();
        }
      } count_down{batch};
      run();
    };
  };
  MutexLock lock(mutex_);
  std::unique_ptr<Lane> started = StartAtOnceLocked(key);
  for (std::size_t i = started == nullptr ? 0 : 1; i < closures.size(); ++i) {
    EnqueueLocked(key, counted(std::move(closures[i])));
  }
  if (started != nullptr) {
    lock.Unlock();
    Run(counted(std::move(closures.front())));
    lock.Lock();
    --first_.in_flight;
    OpenLocked(std::move(started));
    WakeLocked(1);  // one more request may start
  }
  lock.Unlock();
  const MutexLock ended(batch.mutex);
  batch.ended.Wait(batch.mutex,
                   [&batch]() RINGMASTER_REQUIRES(batch.mutex) { return batch.left == 0; });
}

// Returns a new lane if the job has none and its first request can run immediately; otherwise null.
std::unique_ptr<RequestPool::Lane> RequestPool::StartAtOnceLocked(const std::string& key) {
  if (lanes_.contains(key) || first_.in_flight + first_.lanes.size() >= limit_) return nullptr;
  ++first_.in_flight;
  return NewLaneLocked(key);
}

std::unique_ptr<RequestPool::Lane> RequestPool::NewLaneLocked(const std::string& key) {
  auto lane = std::make_unique<Lane>(Lane{.key = key, .waiting = {}, .number = ++made_});
  lanes_.emplace(key, lane.get());
  return lane;
}

void RequestPool::Post(const std::string& key, std::function<void()> closure) {
  const MutexLock lock(mutex_);
  EnqueueLocked(key, std::move(closure));
}

std::size_t RequestPool::queued() const {
  const MutexLock lock(mutex_);
  std::size_t queued = 0;
  for (const auto& [key, lane] : lanes_) queued += lane->waiting.size();
  return queued;
}

void RequestPool::EnqueueLocked(const std::string& key, std::function<void()> closure) {
  const auto found = lanes_.find(key);
  Lane* lane = found == lanes_.end() ? nullptr : found->second;
  const bool ready = lane == nullptr || lane->open;
  if (lane == nullptr) {
    lane = first_.lanes.emplace_back(NewLaneLocked(key)).get();
    ++first_.waiting;
  } else if (lane->open) {
    ++turns_.waiting;
  }
  lane->waiting.push_back(std::move(closure));
  if (ready) WakeLocked(1);
}

void RequestPool::WakeLocked(std::size_t requests) {
  for (std::size_t i = std::min({requests, ReadyLocked(), idle_}); i > 0; --i) changed_.NotifyOne();
  while (ReadyLocked() > idle_ && threads_.size() < 2 * limit_) {
    ++idle_;
    threads_.emplace_back([this](std::stop_token stop) { Work(stop); });
  }
}

std::size_t RequestPool::ReadyLocked() const {
  return std::min(first_.waiting, limit_ - first_.in_flight) +
         std::min(turns_.waiting, limit_ - turns_.in_flight);
}

RequestPool::Kind* RequestPool::NextLocked() {
  if (!first_.lanes.empty() && first_.in_flight < limit_) return &first_;
  if (!turns_.lanes.empty() && turns_.in_flight < limit_) return &turns_;
  return nullptr;
}

RequestPool::Request RequestPool::TakeLocked(Kind& kind) {
  --kind.waiting;
  return &kind == &first_ ? TakeFirstLocked() : TakeTurnLocked();
}

RequestPool::Request RequestPool::TakeFirstLocked() {
  std::unique_ptr<Lane> lane = std::move(first_.lanes.front());
  first_.lanes.pop_front();
  Request request{.run = std::move(lane->waiting.front()), .opens = nullptr};
  lane->waiting.pop_front();
  request.opens = std::move(lane);
  return request;
}

RequestPool::Request RequestPool::TakeTurnLocked() {
  auto& lanes = turns_.lanes;
  const bool oldest = std::exchange(for_the_oldest_, !for_the_oldest_);
  const auto turn =
      oldest ? std::ranges::min_element(lanes, {}, [](const auto& lane) { return lane->number; })
             : lanes.begin();
  Lane& lane = **turn;
  Request request{.run = std::move(lane.waiting.front()), .opens = nullptr};
  lane.waiting.pop_front();
  if (lane.waiting.empty()) {
    lanes_.erase(lane.key);
    lanes.erase(turn);
  } else if (!oldest) {
    lanes.push_back(std::move(lanes.front()));
    lanes.pop_front();
  }
  return request;
}

void RequestPool::OpenLocked(std::unique_ptr<Lane> lane) {
  lane->open = true;
  if (lane->waiting.empty()) {
    lanes_.erase(lane->key);
    return;
  }
  const std::size_t opened = lane->waiting.size();
  turns_.waiting += opened;
  turns_.lanes.push_back(std::move(lane));
  WakeLocked(opened);
}

void RequestPool::Work(std::stop_token stop) {
  MutexLock lock(mutex_);
  while (true) {
    changed_.Wait(mutex_, stop,
                  [this]() RINGMASTER_REQUIRES(mutex_) { return NextLocked() != nullptr; });
    --idle_;
    Kind* kind = NextLocked();
    if (kind == nullptr) return;  // stopped
    ++kind->in_flight;
    Request request = TakeLocked(*kind);
    lock.Unlock();
    Run(std::exchange(request.run, nullptr));
    lock.Lock();
    --kind->in_flight;
    ++idle_;
    if (request.opens != nullptr) OpenLocked(std::move(request.opens));
  }
}

}  // namespace ringmaster::runtime
