#pragma once

// The part of a model's state that is sharded over the ranks, such as the class centres of Partial
// FC: each share is on only one rank. The session calls this interface when worlds and steps
// change; workloads whose state is the same on all ranks do not need it.
//
// Sharded state has the same guarantee as replicated state: an applied step is not lost while one
// copy of every part survives. A StateVersion identifies the same step in both kinds of state.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/base/result.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/world.h"
#include "worker/trainer/elastic/state_version.h"

namespace ringmaster::trainer {

// The share of one rank: rows of a table, all of the same length. Rank r of n has rows ⌊r rows / n⌋
// … ⌊(r + 1) rows / n⌋.
struct ShardView {
  int64_t row_values = 0;
  int64_t first_row = 0;
  std::span<const float> values{};      // in host memory
  std::shared_ptr<const void> owner{};  // owner of the values if they are a copy
};

// A world that has formed, and the data that is needed to move the shares into place.
struct ShardedWorld {
  Communicator& communicator;
  const World& world;
  LocalState adopted;                         // the replicated state that all ranks have now
  std::chrono::milliseconds timeout{30'000};  // time limit for each operation
  std::function<void(int piece)> moving{};    // called before each piece of the state is sent
  // Reads rows [begin, end) of a saved version into `values`; null: there is no saved version.
  // kUnavailable: they cannot be read now. All ranks then pause, and the ranks that failed retry.
  std::function<Result<void>(const StateVersion& version, int64_t begin, int64_t end,
                             std::span<float> values)>
      load{};
  std::function<void(int attempt)> pause{};
  // Reports why the loss of a rank would lose state; an empty text means that it no longer would.
  // Called until the next world begins.
  std::function<void(const std::string& reason)> unprotected{};
};

// The result of ShardedState::Sync(), which is the same on all ranks.
struct ShardedOutcome {
  std::string lost;       // the parts of the adopted version that no rank has; empty: none
  uint64_t checksum = 0;  // checksum of the whole state, if no part is lost
};

// Only the session's thread may use it.
class ShardedState {
 public:
  virtual ~ShardedState() = default;

  // Call it on every rank of a new world, after state sync of the replicated part. Each rank then
  // has its share of the adopted version. If parts are lost, nothing changes, and the ranks may
  // resume from a checkpoint. kInvalid: this world cannot train this model. Other errors are those
  // of the communicator; a rank then keeps its rows. The memory of operations stays valid until the
  // next call.
  virtual Result<ShardedOutcome> Sync(const ShardedWorld& world) = 0;

  // Call it if the current step has no update because its sums are NaN or infinite. All ranks call
  // it before they compute the step again to find the cause, so that no rank applies the update.
  virtual void Exclude() = 0;

  // Call when the replicated part of a step has been applied. `held` is the resulting state.
  // Applies the sharded part, unless the step was skipped.
  virtual void Applied(const LocalState& held) = 0;

  // Call it on every rank before the ranks leave a world as requested. Ranks that are `leaving`
  // send their rows to the ranks that stay. Errors are those of the communicator; the ranks leave
  // even after an error.
  virtual Result<void> HandOver(Communicator& communicator, bool leaving,
                                std::chrono::milliseconds timeout) = 0;

  // Returns the number of rows of the whole table.
  virtual int64_t all_rows() const = 0;
  // This rank's share, valid until the next call. REQUIRES, here and below: Sync() has succeeded.
  virtual ShardView view() const = 0;
  // Returns the checksum of this rank's share. The sum over all ranks, modulo 2^64, is the checksum
  // of the whole state, for any size of the world.
  virtual uint64_t checksum() const = 0;
};

}  // namespace ringmaster::trainer
