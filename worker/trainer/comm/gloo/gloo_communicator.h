#pragma once

// Collectives over Gloo's TCP transport, for ranks on CPUs. Shutting down the sockets ends running
// operations within milliseconds.

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
