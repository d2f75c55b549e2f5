#pragma once

// An in-memory rendezvous store, and worlds whose ranks are threads of the test.

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "worker/trainer/comm/store.h"
#include "worker/trainer/comm/world.h"

namespace ringmaster::trainer {

class MemoryStore final : public Store {
 public:
  Result<void> Set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
    return {};
  }

  Result<std::vector<std::string>> Get(const std::vector<std::string>& keys,
                                       Deadline deadline) override {
    std::unique_lock lock(mutex_);
    std::vector<std::string> values;
    for (const std::string& key : keys) {
      const bool in_time =
          changed_.wait_until(lock, deadline, [&] { return ended_ || values_.contains(key); });
      if (ended_) return Error{ErrorKind::kCancelled, "the world is over"};
      if (!in_time) return Error{ErrorKind::kTimeout, "no " + key};
      values.push_back(values_[key]);
    }
    return values;
  }

  // Ends the world: every Get() fails, also those that wait.
  void End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  bool ended_ = false;
};

// Runs `rank_main` once per rank of a world, each on a separate thread, and waits for all of them.
inline void RunRanks(int size, const std::function<void(const World& world)>& rank_main) {
  const auto store = std::make_shared<MemoryStore>();
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    World world;
    world.store = store;
    world.rank = rank;
    world.size = size;
    ranks.emplace_back([&rank_main, world] { rank_main(world); });
  }
}

inline Deadline In(std::chrono::milliseconds duration) {
  return std::chrono::steady_clock::now() + duration;
}

}  // namespace ringmaster::trainer
