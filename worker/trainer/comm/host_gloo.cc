#include <gloo/config.h>

#include "worker/trainer/comm/gloo_communicator.h"
#include "worker/trainer/comm/host_communicator.h"

namespace ringmaster::trainer {

std::string HostCommunicatorVersion() {
  return std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) + "." +
         std::to_string(GLOO_VERSION_PATCH);
}

Result<std::unique_ptr<Communicator>> MakeHostCommunicator(const World& world, Deadline deadline,
                                                           LeftBehind& left_behind) {
  return std::unique_ptr<Communicator>(new GlooCommunicator(world, deadline, left_behind));
}

}  // namespace ringmaster::trainer
