#pragma once

// The communicator of ranks on CPUs, in worlds of more than one: over Gloo (host_gloo.cc), or
// nothing in builds without it (host_none.cc), which train on GPUs or alone.

#include <memory>
#include <string>

#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/left_behind.h"

namespace ringmaster::trainer {

// Gloo's version; empty where it is not built in.
std::string HostCommunicatorVersion();

// As GlooCommunicator's constructor. kInvalid: this build has none.
Result<std::unique_ptr<Communicator>> MakeHostCommunicator(const World& world, Deadline deadline,
                                                           LeftBehind& left_behind);

}  // namespace ringmaster::trainer
