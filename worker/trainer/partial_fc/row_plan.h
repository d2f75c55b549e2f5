#pragma once

// Plans which rank sends which rows when a world forms. A pure function of the rows that the ranks
// report, so that all ranks compute the same plan.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "worker/trainer/partial_fc/class_sampling.h"

namespace ringmaster::trainer::partial_fc {

// Rows that a rank can bring to the adopted version. Ranks send such values to each other as bytes.
struct HeldRows {
  ClassRange range;
  int64_t replays = 0;  // number of steps to repeat on them first
  int64_t block = 0;    // index among the rank's blocks
  int64_t copy = 0;     // 1: the rank has the rows in addition to its share of the new world
};

// Rows, with the rank and the block from which they are sent.
struct RowSource {
  ClassRange range;
  int rank = 0;
  int64_t block = 0;

  friend bool operator==(const RowSource&, const RowSource&) = default;
};

struct RowPlan {
  std::vector<RowSource> sources;  // ascending, without gaps if no rows are lost
  std::vector<ClassRange> lost;    // rows that no rank has
};

// Plans a source for each row: the one with the fewest replays, then lowest rank, then first block.
RowPlan PlanRows(std::span<const std::vector<HeldRows>> held, int64_t classes);

// Returns the share of a rank in a world of `size`.
ClassRange ShardOf(int rank, int size, int64_t classes);

// Returns the rows that `rank` had before, that another rank now owns, and of which no third rank
// has a copy. If `rank` keeps them, each row is on at least two ranks of the new world.
std::vector<ClassRange> RowsToKeep(int rank, std::span<const std::vector<HeldRows>> held,
                                   int64_t classes);
// Returns the number of rows that only the new owner has, even if all ranks keep RowsToKeep().
int64_t CountRowsHeldOnce(std::span<const std::vector<HeldRows>> held, int64_t classes);

// Returns the part of `range` inside `window`; empty if they do not overlap.
ClassRange Overlap(ClassRange range, ClassRange window);

// Formats ranges: "rows 10 to 19", or "rows 10 to 19 and 5 more ranges".
std::string Describe(std::span<const ClassRange> ranges);

}  // namespace ringmaster::trainer::partial_fc
