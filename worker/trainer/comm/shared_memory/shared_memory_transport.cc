#include "worker/trainer/comm/shared_memory/shared_memory_transport.h"

#include <utility>

namespace ringmaster::trainer {
namespace {

// Up to this size, waking the queue's thread costs more than reducing the data.
constexpr std::size_t kBytesRunByWaiter = 1 << 20;

}  // namespace

Result<std::optional<std::string>> SharedMemoryTransport::Meet(const World& world, bool want,
                                                               Deadline deadline) {
  const SharedLayout layout(world.size);
  Result<SharedWorld> shared = AgreeOnMemory(world, want, layout.bytes(), deadline, missing_);
  if (!shared.ok()) return shared.error();
  if (shared->segment == nullptr) return std::optional(shared->why_not);
  segment_ = std::move(shared->segment);
  auto collectives = std::make_unique<SharedCollectives>(segment_->memory(), world.rank,
                                                         std::move(shared->processes));
  const MutexLock lock(mutex_);
  collectives_ = std::move(collectives);
  if (down_) collectives_->ShutDown();
  return std::optional<std::string>();
}

Result<void> SharedMemoryTransport::Connect(const World& world, Deadline deadline) {
  const Result<std::optional<std::string>> met = Meet(world, true, deadline);
  if (!met.ok()) return met.error();
  if (!*met) return {};
  return Error{ErrorKind::kInvalid, "the ranks cannot share memory: " + **met};
}

std::size_t SharedMemoryTransport::bytes_run_by_waiter() const { return kBytesRunByWaiter; }

void SharedMemoryTransport::ShutDown() {
  const MutexLock lock(mutex_);
  down_ = true;
  if (collectives_) collectives_->ShutDown();
}

}  // namespace ringmaster::trainer
