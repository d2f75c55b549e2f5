#pragma once

// The messages and transfers by which the ranks of a new world move every row to its new owner. The
// object owns the memory of its operations; after a failure, it must exist until the communicator
// has ended. Not thread-safe.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/result.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/partial_fc/row_plan.h"
#include "worker/trainer/partial_fc/rows.h"

namespace ringmaster::trainer::partial_fc {

class RowExchange {
 public:
  struct Options {
    std::chrono::milliseconds timeout{30'000};  // for each operation
    std::size_t piece_bytes = 4 << 20;          // approximate maximum that a rank receives at once
    std::function<void(int piece)> moving{};    // called before each piece
  };

  // `targets`: the rows that each rank must have at the end, by rank. Moved rows are stored in
  // `place`, which must outlive the exchange.
  RowExchange(Communicator& communicator, std::vector<ClassRange> targets, int64_t dimension,
              Options options, RowStorage& place = HostRows());

  // Returns the rows of all ranks, by rank. Errors here and below are the communicator's.
  Result<std::vector<std::vector<HeldRows>>> Gather(std::vector<HeldRows> mine);

  // Calls `work` on all ranks until no rank has work left. `work` returns how much this rank has
  // left, and must return often enough that other ranks do not time out.
  Result<void> WorkTogether(const std::function<Result<int64_t>()>& work);

  // Returns the memory of one of this rank's blocks. REQUIRES: the plan names this rank and the
  // block.
  using Provide = std::function<const Rows&(int64_t block)>;
  // Moves the rows of `plan` to their new ranks and returns this rank's rows. kUnavailable: rows
  // arrived damaged.
  Result<Rows> Move(const RowPlan& plan, const Provide& provide);

  // Returns the numbers that the ranks passed, by rank.
  Result<std::vector<uint64_t>> GatherNumbers(uint64_t mine);
  // Returns the sum of the numbers that the ranks passed, modulo 2^64.
  Result<uint64_t> SumOver(uint64_t mine);

 private:
  ClassRange Target(int rank) const { return targets_[static_cast<std::size_t>(rank)]; }
  Result<void> MovePiece(const RowPlan& plan, const Provide& provide, int64_t first_row);
  Result<void> CheckSums();
  Deadline deadline() const { return std::chrono::steady_clock::now() + options_.timeout; }

  Communicator& communicator_;
  const std::vector<ClassRange> targets_;
  const int64_t dimension_;
  const Options options_;
  const int64_t piece_rows_;
  RowStorage& place_;

  std::vector<int64_t> counts_;
  std::vector<HeldRows> mine_, all_;
  int64_t left_ = 0;
  std::vector<float> send_, receive_;
  Rows staged_;
  uint64_t sent_sum_ = 0;
  uint64_t own_number_ = 0;
  std::vector<uint64_t> numbers_;
  int pieces_ = 0;
};

}  // namespace ringmaster::trainer::partial_fc
