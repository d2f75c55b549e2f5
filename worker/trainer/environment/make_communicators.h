#pragma once

// How the ranks of each world reach each other: over NCCL on GPUs; on CPUs through memory or over
// Gloo (comm/host/transport_choice.h); a rank by itself reaches nobody. Used by train_main.cc, the
// library and the benches of training.

#include "worker/trainer/comm/abandoned_connects.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/host/host_transport.h"
#include "worker/trainer/gpu/gpu.h"

namespace ringmaster::trainer {

// `gpu` is null for ranks on CPUs, and `transport` is theirs alone. `gpu` and `abandoned_connects`
// outlive the factory.
CommunicatorFactory MakeCommunicators(Gpu* gpu, AbandonedConnects& abandoned_connects,
                                      HostTransport transport);

}  // namespace ringmaster::trainer
