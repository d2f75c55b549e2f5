#include "worker/trainer/comm/host/host_communicator.h"

namespace ringmaster::trainer {

std::string HostCommunicatorVersion() { return ""; }

std::shared_ptr<CollectiveTransport> MakeHostGloo() { return nullptr; }

}  // namespace ringmaster::trainer
