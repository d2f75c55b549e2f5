#pragma once

// Creates the communicators of each world: over NCCL on GPUs, over shared memory or Gloo on CPUs
// (comm/host/transport_choice.h), and a loopback for a single rank. Used by train_main.cc, the
// library and the training benchmarks.

#include "worker/trainer/comm/abandoned_connects.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/host/host_transport.h"
#include "worker/trainer/gpu/gpu.h"

namespace ringmaster::trainer {

// `gpu` is null for ranks on CPUs; only they use `transport`. `gpu` and `abandoned_connects` must
// outlive the factory.
CommunicatorFactory MakeCommunicators(Gpu* gpu, AbandonedConnects& abandoned_connects,
                                      HostTransport transport);

}  // namespace ringmaster::trainer
