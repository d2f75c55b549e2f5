#pragma once

// Copies of other ranks' rows, in blocks with separate versions. The source rank (replica_peers.h)
// sends its rows in pieces, and repeats this continuously. Copies from earlier worlds are kept
// until every rank has a copy of its current source. Decides what to send, but does not send it.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "worker/trainer/partial_fc/head_device.h"
#include "worker/trainer/partial_fc/input_log.h"
#include "worker/trainer/partial_fc/rows.h"

namespace ringmaster::trainer::partial_fc {

// Rows at a version. Version {} means the initial values, for which memory is allocated only when
// needed. Rows of copies are in host memory, and in device memory only while steps are repeated on
// them.
struct Block {
  ClassRange range;
  StateVersion version;
  Rows rows{};
  bool visiting = false;  // true: in device memory, while steps are repeated

  // Repeats `log`'s first step after this version, on `device`. REQUIRES: `log` has such a step.
  void Advance(const HeadOptions& options, const InputLog& log, HeadDevice& device,
               ShardStep& step);
  // Call after the last step to repeat. Sets missing initial values, and moves rows to host memory.
  void Settle(const HeadOptions& options, HeadDevice& device);
  // Sets initial values, as `device` computes them, if the rows do not have values yet.
  void Materialise(const HeadOptions& options, HeadDevice& device);
};

// The pieces of a shard that are sent in one exchange.
struct CopyRound {
  int first_piece = 0;
  int pieces = 0;

  // Returns the rows of `shard` that these pieces contain.
  ClassRange RowsOf(ClassRange shard, int all_pieces) const;
};

class Copies {
 public:
  // A copy is sent once in `every` steps, in `every` pieces.
  explicit Copies(int every) : every_(every) {}

  // Starts a new world, in which this rank keeps a copy of `source`. `as_initialised`: training
  // starts, so the copy is complete without a transfer.
  void Enter(ClassRange source, bool as_initialised);
  // Removes all copies, because this rank no longer has a source.
  void Clear();

  // Adds a copy that this rank already has. It is kept as long as the copies of earlier worlds.
  void Keep(Block copy) { older_.push_back(std::move(copy)); }

  int every() const { return every_; }
  // Returns the next exchange, the same on all ranks. It is larger while copies are incomplete.
  CopyRound next() const;
  // Call when an exchange is complete: this rank received `rows` of the source, at `version`.
  void Received(ClassRange range, std::span<const float> rows, const StateVersion& version,
                int64_t dimension);
  // Returns whether every rank has its source's full copy and applied a step after the last piece.
  bool complete() const { return complete_; }

  // Returns all blocks that have rows, including older copies.
  std::vector<Block*> blocks();
  std::size_t bytes() const;
  // Returns the oldest version of all blocks that have rows; `present` if there are none.
  StateVersion Oldest(const StateVersion& present) const;

 private:
  void DropOutdated();
  int64_t hurried() const;

  const int every_;
  std::vector<Block> pieces_;  // pieces of the source's copy; version kAbsent: not yet received
  std::vector<Block> older_;
  ClassRange source_;
  int64_t exchanges_ = 0;
  bool complete_ = false;
  bool began_complete_ = false;
};

}  // namespace ringmaster::trainer::partial_fc
