#pragma once

// A Gloo context that connects its pairs itself, because Gloo's rendezvous does not support our
// deadlines. Its waits and sockets can be ended from another thread, because Gloo's
// closeConnections() does not wake a waiting operation. Private to gloo_communicator.cc.

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
  // Connects `world.rank` with every other rank, through the world's store. May throw what Gloo
  // throws. Blocks about until the deadline; several times as long where a peer's address does not
  // answer, since Gloo tries again.
  Result<void> Connect(const World& world, Deadline deadline);

  // The rank that a Connect() under way tries to reach, or that it failed for; -1 where it may be
  // several or none. Thread-safe.
  int missing() const { return missing_; }

  // REQUIRES: Connect() succeeded.
  const std::shared_ptr<gloo::Context>& context() const { return context_; }

  // Ends all waits and shuts the sockets to all peers down: operations under way fail within
  // milliseconds, here and on the peers, and a Connect() under way stops: at once where it waits
  // for a peer to come, at the next peer where its own attempt gets no answer. Thread-safe.
  void ShutDown();

 private:
  void Remember(const std::vector<char>& address_bytes);

  const std::shared_ptr<WakeableBuffers> buffers_ = std::make_shared<WakeableBuffers>();
  std::shared_ptr<gloo::Context> context_;
  std::atomic<int> missing_ = -1;
  std::atomic<bool> down_ = false;
  Mutex mutex_;
  // The local and remote ends of our pairs.
  std::vector<sockaddr_storage> addresses_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::trainer
