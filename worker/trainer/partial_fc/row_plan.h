#pragma once

// Plans which rank sends which rows when a world forms. A pure function of the rows that the ranks
// report, so that all ranks compute the same plan.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "worker/trainer/partial_fc/class_sampling.h"

namespace ringmaster::trainer::partial_fc {

// Rows that a rank can bring to the adopted version. Sent between ranks as bytes.
struct HeldRows {
  ClassRange range;
  int64_t replays = 0;  // number of steps to repeat on them first
  int64_t block = 0;    // index among the rank's blocks
  int64_t copy = 0;     // 1: the rank keeps it beside its share of the new world
};

// Rows, and the rank and the block that they come from.
struct RowSource {
  ClassRange range;
  int rank = 0;
  int64_t block = 0;

  friend bool operator==(const RowSource&, const RowSource&) = default;
};

struct RowPlan {
  std::vector<RowSource> sources;  // ascending, without gaps if no rows are lost
  std::vector<ClassRange> lost;    // rows that no rank holds
};

// The source with the fewest replays is used, then the lowest rank, then its first block.
RowPlan PlanRows(std::span<const std::vector<HeldRows>> held, int64_t classes);

// The share of a rank in a world of `size`.
ClassRange ShardOf(int rank, int size, int64_t classes);

// The rows that `rank` had, that other ranks own now, and that no third rank has a copy of. While
// it keeps them as copies, no rank of the new world is the only one with its rows.
std::vector<ClassRange> RowsToKeep(int rank, std::span<const std::vector<HeldRows>> held,
                                   int64_t classes);
// The number of rows that only their new owner has, even if all others keep RowsToKeep().
int64_t CountRowsHeldOnce(std::span<const std::vector<HeldRows>> held, int64_t classes);

// The part of `range` inside `window`; empty if they do not overlap.
ClassRange Overlap(ClassRange range, ClassRange window);

// Formats ranges: "rows 10 to 19", or "rows 10 to 19 and 5 more ranges".
std::string Describe(std::span<const ClassRange> ranges);

}  // namespace ringmaster::trainer::partial_fc
