#pragma once

// Runs complete ranks of the trainer as threads of one test process. They communicate through
// shared memory or over Gloo on loopback.

#include <memory>

#include "tests/unit/trainer/memory_store.h"
#include "worker/trainer/comm/host/transport_choice.h"
#include "worker/trainer/comm/loopback_communicator.h"
#include "worker/trainer/compression/compressed_reducer.h"
#include "worker/trainer/elastic_torch/session.h"
#include "worker/trainer/telemetry/audit_log.h"
#include "worker/trainer/train/train_loop.h"
#include "worker/trainer/workloads/mnist.h"
#include "worker/trainer/world_sources/static/static_membership.h"

namespace ringmaster::trainer {

inline CommunicatorFactory TestCommunicators(AbandonedConnects& abandoned_connects) {
  return [&abandoned_connects](const World& world,
                               Deadline deadline) -> Result<std::unique_ptr<Communicator>> {
    if (Result<void> room = abandoned_connects.Room(); !room.ok()) return room.error();
    if (world.size == 1) return std::unique_ptr<Communicator>(new LoopbackCommunicator());
    return MakeHostCommunicator(
        world, deadline, abandoned_connects,
        world.one_machine ? HostTransport::kSharedMemory : HostTransport::kGloo);
  };
}

// One rank of a world that never changes: workload, buckets, optimizer, and a session that has not
// joined yet.
struct TestRank {
  TestRank(const World& world, int64_t global_batch, uint64_t seed, const SgdOptions& sgd = {},
           uint64_t fingerprint = 0, Compression compression = Compression::kNone,
           Checkpointer* checkpointer = nullptr, int64_t micro_batch = 0,
           ShardedState* sharded = nullptr)
      : membership(MakeStaticMembership(world, world.store)),
        workload(MakeMnist(GeneratedDigits(seed, 512, 101),
                           {.seed = seed, .global_batch = global_batch})),
        buckets(workload->parameters(), {.first_bytes = 64 << 10, .bytes = 16 << 10}),
        optimizer(buckets.flat_parameters(), buckets.flat_gradients(), sgd),
        codec(MakeHostRowCodec(compression)),
        reducer(MakeCompressedGradients(codec.get(), buckets.gradient_counts())),
        session(*membership, TestCommunicators(abandoned_connects), buckets, optimizer.state(),
                audit, clock,
                {.global_batch = global_batch,
                 .micro_batch = micro_batch,
                 .timeout = std::chrono::seconds(60),
                 .fingerprint = fingerprint,
                 .checkpointer = checkpointer,
                 .sharded = sharded,
                 .reducer = reducer.get()}) {}

  SystemClock clock;
  AbandonedConnects abandoned_connects;
  AuditLog audit;
  std::unique_ptr<MembershipSource> membership;
  std::unique_ptr<Workload> workload;
  Buckets buckets;
  Sgd optimizer;
  std::unique_ptr<RowCodec> codec;
  std::unique_ptr<GradientReducer> reducer;
  Session session;
};

}  // namespace ringmaster::trainer
