#include "worker/trainer/comm/host_communicator.h"

namespace ringmaster::trainer {

std::string HostCommunicatorVersion() { return ""; }

Result<std::unique_ptr<Communicator>> MakeHostCommunicator(const World& world, Deadline,
                                                           LeftBehind&) {
  return Error{ErrorKind::kInvalid,
               "a world of " + std::to_string(world.size) +
                   " ranks on CPUs: this build of ringmaster-train has no Gloo; use one that has, "
                   "or --device=cuda"};
}

}  // namespace ringmaster::trainer
