#include "tests/gpu/piped_membership.h"

#include <cstdio>
#include <istream>
#include <sstream>
#include <unistd.h>
#include <utility>

#include "worker/trainer/comm/file_store.h"

namespace ringmaster::trainer {

PipedMembership::PipedMembership(int orders) : reader_([this, orders] { Read(orders); }) {}

void PipedMembership::Read(int orders) {
  FILE* const stream = ::fdopen(orders, "r");
  char line[1024];
  while (std::fgets(line, sizeof(line), stream) != nullptr) {
    std::istringstream words(line);
    std::string kind;
    std::string folder;
    World world;
    words >> kind >> world.epoch.number >> world.rank >> world.size >> folder;
    if (kind == "end") break;
    if (kind == "leave") {
      left_ = world.epoch.number;
      continue;
    }
    world.epoch.term = 1;
    Result<std::unique_ptr<FileStore>> store = FileStore::Open(folder);
    if (!store.ok()) break;
    world.store = *std::move(store);
    const std::lock_guard lock(mutex_);
    if (over_ && watched_ < world.epoch && !IsLeft(watched_))
      std::exchange(over_, nullptr)("another world follows");
    newest_ = std::move(world);
    changed_.notify_all();
  }
  std::fclose(stream);
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

Result<World> PipedMembership::AwaitWorld(control::Epoch after) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ || (newest_ && after < newest_->epoch); });
  if (newest_ && after < newest_->epoch) return *newest_;
  return Error{ErrorKind::kNotFound, "no other world comes"};
}

void PipedMembership::AwaitEnd() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_; });
}

void PipedMembership::Watch(control::Epoch epoch, OverCallback over) {
  const std::lock_guard lock(mutex_);
  if (newest_ && epoch < newest_->epoch && !IsLeft(epoch)) return over("another world follows");
  watched_ = epoch;
  over_ = std::move(over);
}

void PipedMembership::Unwatch() {
  const std::lock_guard lock(mutex_);
  over_ = nullptr;
}

}  // namespace ringmaster::trainer
