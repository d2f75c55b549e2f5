#pragma once

// Copies of other ranks' rows, in blocks with their own versions. The copy of the source rank
// (replica_peers.h) arrives piece by piece in endless rounds; copies from earlier worlds are kept
// until every rank has that of its current source. Decides what to send when, but does not send.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "worker/trainer/partial_fc/head_device.h"
#include "worker/trainer/partial_fc/input_log.h"
#include "worker/trainer/partial_fc/rows.h"

namespace ringmaster::trainer::partial_fc {

// Rows at a version. Without values they are as initialised, and {} is their version: nothing is
// kept for them before they are needed. Copies lie on the host; on a device only while steps are
// repeated on them.
struct Block {
  ClassRange range;
  StateVersion version;
  Rows rows{};
  bool visiting = false;  // a device, while steps are repeated

  // Repeats the first step of `log` after this version, on `device`. REQUIRES: it has such a step.
  void Advance(const HeadOptions& options, const InputLog& log, HeadDevice& device,
               ShardStep& step);
  // No more steps are repeated for now: rows have values, and are where they were.
  void Settle(const HeadOptions& options, HeadDevice& device);
  // Makes values of rows that are as initialised, as `device` has them.
  void Materialise(const HeadOptions& options, HeadDevice& device);
};

// The pieces of a shard that travel in one exchange.
struct CopyRound {
  int first_piece = 0;
  int pieces = 0;

  // The rows of a shard that these are.
  ClassRange RowsOf(ClassRange shard, int all_pieces) const;
};

class Copies {
 public:
  // A copy is sent once in every `every` steps: in so many pieces.
  explicit Copies(int every) : every_(every) {}

  // A new world, in which this rank keeps a copy of `source`. `as_initialised`: training starts, so
  // the copy is complete without having come.
  void Enter(ClassRange source, bool as_initialised);
  // No source, and nothing that a copy could save.
  void Clear();

  // A copy that this rank has already, for as long as those of earlier worlds.
  void Keep(Block copy) { older_.push_back(std::move(copy)); }

  int every() const { return every_; }
  // The content of the next exchange, the same on all ranks; more until the copies are complete.
  CopyRound next() const;
  // The exchange is done: `rows` of the source came, as they are at `version`.
  void Received(ClassRange range, std::span<const float> rows, const StateVersion& version,
                int64_t dimension);
  // Every rank has the whole copy of its source: it came, and a step was done since.
  bool complete() const { return complete_; }

  // All held rows, including older copies.
  std::vector<Block*> blocks();
  std::size_t bytes() const;
  // The oldest version among them; `present` if there are none.
  StateVersion Oldest(const StateVersion& present) const;

 private:
  void DropOutdated();
  int64_t hurried() const;

  const int every_;
  std::vector<Block> pieces_;  // of the source; those of version kAbsent have not come
  std::vector<Block> older_;
  ClassRange source_;
  int64_t exchanges_ = 0;
  bool complete_ = false;
  bool began_complete_ = false;
};

}  // namespace ringmaster::trainer::partial_fc
