#pragma once

// Selects the transport for ranks on CPUs in worlds with more than one rank: shared memory if
// possible, otherwise Gloo, unless a flag selects one (host_transport.h). Builds without Gloo
// (host_none.cc) have only shared memory. Used by environment/make_communicators.h and benches.

#include <memory>
#include <string>

#include "worker/trainer/comm/abandoned_connects.h"
#include "worker/trainer/comm/collective_transport.h"
#include "worker/trainer/comm/host/host_transport.h"

namespace ringmaster::trainer {

// Gloo's version; empty where it is not built in.
std::string GlooVersion();
// Null where it is not built in.
std::shared_ptr<CollectiveTransport> MakeHostGloo();

// Returns at once, as GlooCommunicator's constructor does. kInvalid: there is none for this world,
// in this build or with this choice; where that depends on all ranks, operations end so.
Result<std::unique_ptr<Communicator>> MakeHostCommunicator(
    const World& world, Deadline deadline, AbandonedConnects& abandoned_connects,
    HostTransport transport = HostTransport::kAuto);

}  // namespace ringmaster::trainer
