#pragma once

// A Gloo context that connects its pairs itself, because Gloo's rendezvous does not support
// Ringmaster's deadlines. Another thread can end the context's waits and shut down its sockets;
// Gloo's closeConnections() would not wake a waiting operation. Private to gloo_communicator.cc.

#include <atomic>
#include <memory>
#include <sys/socket.h>
#include <vector>

#include <gloo/context.h>

#include "common/base/mutex.h"
#include "worker/trainer/comm/gloo/wakeable_context.h"
#include "worker/trainer/comm/world.h"

namespace ringmaster::trainer {

class GlooMesh {
 public:
  // Connects `world.rank` with all other ranks through the world's store. May throw Gloo's
  // exceptions. Blocks at most until about the deadline. If a peer's address does not respond,
  // blocks up to several times longer, because Gloo retries.
  Result<void> Connect(const World& world, Deadline deadline);

  // Returns the rank that the current Connect() tries to reach, or that it failed to reach; -1 if
  // no single rank is known. Thread-safe.
  int missing() const { return missing_; }

  // REQUIRES: Connect() succeeded.
  const std::shared_ptr<gloo::Context>& context() const { return context_; }

  // Ends all waits and shuts down the sockets to all peers: running operations fail within
  // milliseconds, here and on the peers. A running Connect() ends immediately if it waits for a
  // peer to connect; otherwise it ends before it connects to the next peer. Thread-safe.
  void ShutDown();

 private:
  void Remember(const std::vector<char>& address_bytes);

  const std::shared_ptr<WakeableBuffers> buffers_ = std::make_shared<WakeableBuffers>();
  std::shared_ptr<gloo::Context> context_;
  std::atomic<int> missing_ = -1;
  std::atomic<bool> down_ = false;
  Mutex mutex_;
  // The local and remote addresses of this object's pairs.
  std::vector<sockaddr_storage> addresses_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::trainer
