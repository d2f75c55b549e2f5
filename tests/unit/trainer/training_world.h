#pragma once

// Whole ranks of the trainer as threads of one test process, over Gloo on loopback.

#include <memory>
#include <string>

#include "tests/unit/trainer/memory_store.h"
#include "worker/trainer/gloo_communicator.h"
#include "worker/trainer/loopback_communicator.h"
#include "worker/trainer/session.h"
#include "worker/trainer/train_loop.h"
#include "worker/trainer/workloads/mnist.h"

namespace ringmaster::trainer {

inline std::unique_ptr<Communicator> TestCommunicator(const World& world, Store& store,
                                                      Deadline deadline) {
  if (world.size == 1) return std::make_unique<LoopbackCommunicator>();
  return std::make_unique<GlooCommunicator>(world, store, deadline);
}

// One rank: workload, buckets and a session, not yet joined.
struct TestRank {
  TestRank(const World& world, Store& store, int64_t global_batch, uint64_t seed,
           uint64_t fingerprint = 0)
      : membership(MakeStaticMembership(world, std::make_unique<SharedStore>(store))),
        workload(MakeMnist(GeneratedDigits(seed, 512, 101),
                           {.seed = seed, .global_batch = global_batch})),
        buckets(workload->parameters(), {.first_bytes = 64 << 10, .bytes = 16 << 10}),
        session(*membership, TestCommunicator, buckets, clock,
                {.global_batch = global_batch,
                 .timeout = std::chrono::seconds(60),
                 .fingerprint = fingerprint}) {}

  SystemClock clock;
  std::unique_ptr<MembershipSource> membership;
  std::unique_ptr<Workload> workload;
  Buckets buckets;
  Session session;
};

}  // namespace ringmaster::trainer
