#pragma once

// The options of a session besides its model: limits and optional components. The components are
// interfaces in this folder, implemented in folders that the session does not depend on.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "common/base/result.h"
#include "worker/trainer/comm/world.h"
#include "worker/trainer/elastic/checkpointer.h"
#include "worker/trainer/elastic/gradient_reducer.h"
#include "worker/trainer/elastic/sharded_state.h"
#include "worker/trainer/elastic/state_mirror.h"
#include "worker/trainer/elastic/step_observers.h"

namespace ringmaster::trainer {

// All pointers must outlive the session.
struct SessionOptions {
  int64_t global_batch = 1;
  int64_t micro_batch =
      0;  // maximum number of samples computed at once; 0: a rank's share in a world of full size
  std::chrono::milliseconds timeout{30'000};  // time limit to connect and of each step's reductions
  // Hash of everything besides the state that must be equal on all ranks: flags, data, versions.
  uint64_t fingerprint = 0;
  std::function<void(const World& world)>
      entered{};  // called for each world, before its first step
  // Checks this rank's device before each world, also after a world that broke. An error ends the
  // session, because another world does not repair the device. Empty: no check.
  std::function<Result<void>()> device_works{};
  std::shared_ptr<RankPosition> position{};  // null: this rank does not report its position
  Checkpointer* checkpointer = nullptr;      // null: the state is not saved
  ShardedState* sharded = nullptr;           // null: all state is replicated
  CollectiveTrace* trace = nullptr;          // null: no trace
  GradientReducer* reducer = nullptr;        // null: gradients are not compressed
  StateMirror* mirror = nullptr;             // null: the state is in host memory
};

}  // namespace ringmaster::trainer
