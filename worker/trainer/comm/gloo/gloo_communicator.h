#pragma once

// Collectives over Gloo's TCP transport, for ranks on CPUs. What is under way ends by shutting the
// sockets down, which takes milliseconds.

#include <memory>

#include "worker/trainer/comm/collective_transport.h"

namespace ringmaster::trainer {

std::shared_ptr<CollectiveTransport> MakeGlooTransport();

class GlooCommunicator final : public TransportCommunicator {
 public:
  GlooCommunicator(const World& world, Deadline deadline, AbandonedConnects& abandoned_connects)
      : TransportCommunicator(world, deadline, MakeGlooTransport(), abandoned_connects) {}
};

}  // namespace ringmaster::trainer
