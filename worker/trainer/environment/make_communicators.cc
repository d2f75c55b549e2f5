#include "worker/trainer/environment/make_communicators.h"

#include <memory>

#include "worker/trainer/comm/host/transport_choice.h"
#include "worker/trainer/comm/loopback_communicator.h"

namespace ringmaster::trainer {

CommunicatorFactory MakeCommunicators(Gpu* gpu, AbandonedConnects& abandoned_connects,
                                      HostTransport transport) {
  if (gpu != nullptr) return gpu->communicators(abandoned_connects);
  return [&abandoned_connects, transport](
             const World& world, Deadline deadline) -> Result<std::unique_ptr<Communicator>> {
    if (Result<void> room = abandoned_connects.Room(); !room.ok()) return room.error();
    if (world.size == 1) return std::unique_ptr<Communicator>(new LoopbackCommunicator());
    return MakeHostCommunicator(world, deadline, abandoned_connects, transport);
  };
}

}  // namespace ringmaster::trainer
