#pragma once

// The part of a model's state that is sharded over the ranks, such as the class centres of Partial
// FC: only one rank holds each share. The session calls this interface when worlds and steps
// change; workloads whose state is the same on all ranks do not have one.
//
// Sharded state has the same guarantee as replicated state: an applied step is never lost while one
// copy of every part survives. A version (StateVersion) identifies the same step for both.

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

// One rank's share: rows of one length, of a table that all shares make up.
// Rank r of n holds the rows ⌊r rows / n⌋ … ⌊(r + 1) rows / n⌋.
struct ShardView {
  int64_t row_values = 0;
  int64_t first_row = 0;
  std::span<const float> values{};      // the host's memory
  std::shared_ptr<const void> owner{};  // of the values if they are a copy
};

// A world that has formed, as far as bringing the shares into place needs it.
struct ShardedWorld {
  Communicator& communicator;
  const World& world;
  LocalState adopted;                         // what the replicated state of all ranks is now
  std::chrono::milliseconds timeout{30'000};  // of each operation
  std::function<void(int piece)> moving{};    // called before each piece of a state that travels
  // Reads rows [begin, end) of a kept version into `values`; null: none is kept. kUnavailable: they
  // cannot be read now. Then all ranks pause, and those that failed retry.
  std::function<Result<void>(const StateVersion& version, int64_t begin, int64_t end,
                             std::span<float> values)>
      load{};
  std::function<void(int attempt)> pause{};
  // To be told, until the next world, why the loss of a rank would now be one of state too, and
  // with an empty text once it would not any more.
  std::function<void(const std::string& reason)> unprotected{};
};

// The result, which is the same on all ranks.
struct ShardedOutcome {
  std::string lost;  // which parts no rank of the world has at that version; empty: all are there
  uint64_t checksum = 0;  // of the whole, if no part is lost
};

// Thread-safety: the session's thread.
class ShardedState {
 public:
  virtual ~ShardedState() = default;

  // On every rank of a new world, after state sync of the replicated part: afterwards each rank
  // holds its share of the adopted version. Where parts are lost nothing changes, and the ranks may
  // go back to a checkpoint. kInvalid: this world cannot train this model. Other errors are the
  // communicator's; what a rank held it still holds, and memory that operations work on lives until
  // the next call.
  virtual Result<ShardedOutcome> Sync(const ShardedWorld& world) = 0;

  // The current step has no update, because its sums are NaN or infinite. All ranks call it before
  // they compute the step again to find the cause, so that none continues without it.
  virtual void Exclude() = 0;

  // The replicated part of a step is applied, and this is the version after it: applies the
  // sharded part, where it is not left out.
  virtual void Applied(const LocalState& held) = 0;

  // On every rank, before all of them leave a world that they were asked to leave: those who are
  // `leaving` give what they hold to those who stay. Errors are the communicator's, and end
  // nothing: the ranks leave all the same.
  virtual Result<void> HandOver(Communicator& communicator, bool leaving,
                                std::chrono::milliseconds timeout) = 0;

  // For the whole table.
  virtual int64_t all_rows() const = 0;
  // This rank's share, until the next call. REQUIRES, as below: Sync() has succeeded.
  virtual ShardView view() const = 0;
  // The checksum of this rank's share. The sum over all ranks, modulo 2^64, is that of the whole
  // state, whatever the world's size.
  virtual uint64_t checksum() const = 0;
};

}  // namespace ringmaster::trainer
