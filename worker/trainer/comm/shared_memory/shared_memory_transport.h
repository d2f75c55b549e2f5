#pragma once

// The transport between ranks on one machine through shared memory. It does not need sockets. Its
// only thread is the queue's, which sleeps while data is small. If a rank ends, is shut down or
// stays silent, the operations of ranks that wait for it fail. Each world has a separate segment,
// so a rank that still maps an old segment does no harm.

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "worker/trainer/comm/collective_transport.h"
#include "worker/trainer/comm/shared_memory/agreement.h"
#include "worker/trainer/comm/shared_memory/shared_collectives.h"

namespace ringmaster::trainer {

class SharedMemoryTransport final : public CollectiveTransport {
 public:
  // Returns nothing if the ranks of `world` now share memory; otherwise the reason, the same on all
  // ranks. An error means that a rank did not answer. `want`: whether this rank agrees to share.
  Result<std::optional<std::string>> Meet(const World& world, bool want, Deadline deadline);

  // kInvalid: the ranks cannot share memory.
  Result<void> Connect(const World& world, Deadline deadline) override;
  int missing() const override { return missing_; }
  std::size_t bytes_run_by_waiter() const override;
  void ShutDown() override;
  Collectives& collectives() override { return *collectives_; }

 private:
  std::atomic<int> missing_ = -1;
  std::unique_ptr<Segment> segment_;
  Mutex mutex_;
  bool down_ RINGMASTER_GUARDED_BY(mutex_) = false;
  std::unique_ptr<SharedCollectives> collectives_;  // set once, with mutex_ locked
};

}  // namespace ringmaster::trainer
