#include "worker/trainer/comm/abandoned_connects.h"

#include <string>
#include <utility>

#include "common/base/log.h"

namespace ringmaster::trainer {

Result<void> AbandonedConnects::Room() {
  if (Hanging() < kMost) return {};
  return Error{ErrorKind::kInternal, std::to_string(kMost) +
                                         " connection attempts to other ranks hang and cannot be "
                                         "canceled; this rank exits so that it is restarted"};
}

void AbandonedConnects::Take(std::jthread thread, std::shared_ptr<const std::atomic<bool>> ended) {
  const int hanging = Hanging() + 1;
  LogInfo("Abandoned a hanging connection attempt", {{"hanging", hanging}});
  const MutexLock lock(mutex_);
  entries_.push_back({std::move(ended), std::move(thread)});
}

int AbandonedConnects::Hanging() {
  const MutexLock lock(mutex_);
  std::erase_if(entries_, [](const Entry& entry) { return entry.ended->load(); });
  return static_cast<int>(entries_.size());
}

}  // namespace ringmaster::trainer
