#pragma once

// Selects the transport for ranks on CPUs in worlds with more than one rank: shared memory if
// possible, otherwise Gloo, unless a flag selects one (host_transport.h). Builds without Gloo
// (host_none.cc) have only shared memory. Used by environment/make_communicators.h and benchmarks.

#include <memory>
#include <string>

#include "worker/trainer/comm/abandoned_connects.h"
#include "worker/trainer/comm/collective_transport.h"
#include "worker/trainer/comm/host/host_transport.h"

namespace ringmaster::trainer {

// Returns the version of Gloo; empty if the build does not include it.
std::string GlooVersion();
// Returns null if the build does not include Gloo.
std::shared_ptr<CollectiveTransport> MakeHostGloo();

// Returns immediately; operations wait for the connection. kInvalid: this build does not have such
// a transport for `world`. If this is known only after connecting, operations return kInvalid.
Result<std::unique_ptr<Communicator>> MakeHostCommunicator(
    const World& world, Deadline deadline, AbandonedConnects& abandoned_connects,
    HostTransport transport = HostTransport::kAuto);

}  // namespace ringmaster::trainer
