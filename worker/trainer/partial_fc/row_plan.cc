#include "worker/trainer/partial_fc/row_plan.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <tuple>

#include "worker/trainer/numeric/share.h"

namespace ringmaster::trainer::partial_fc {
namespace {

// A rank's offer to send rows; the smallest offer is the best.
struct Offer {
  int64_t replays;
  int rank;
  int64_t block;

  friend auto operator<=>(const Offer&, const Offer&) = default;
};

struct Edge {
  int64_t row;
  bool begins;
  Offer offer;
};

std::vector<Edge> EdgesOf(std::span<const std::vector<HeldRows>> held) {
  std::vector<Edge> edges;
  for (std::size_t rank = 0; rank < held.size(); ++rank) {
    for (const HeldRows& rows : held[rank]) {
      if (rows.range.size() <= 0) continue;
      const Offer offer{rows.replays, static_cast<int>(rank), rows.block};
      edges.push_back({rows.range.begin, true, offer});
      edges.push_back({rows.range.end, false, offer});
    }
  }
  std::ranges::sort(edges, {}, &Edge::row);
  return edges;
}

void Append(RowPlan& plan, ClassRange range, const std::optional<Offer>& best) {
  if (range.size() <= 0) return;
  if (!best) {
    if (!plan.lost.empty() && plan.lost.back().end == range.begin) {
      plan.lost.back().end = range.end;
    } else {
      plan.lost.push_back(range);
    }
    return;
  }
  if (!plan.sources.empty()) {
    RowSource& last = plan.sources.back();
    if (last.range.end == range.begin && last.rank == best->rank && last.block == best->block) {
      last.range.end = range.end;
      return;
    }
  }
  plan.sources.push_back({.range = range, .rank = best->rank, .block = best->block});
}

// Returns the rows of `owner`'s shard in the new world of which no other rank has a copy. `shards`:
// shards of the previous world also count as copies.
std::vector<ClassRange> RowsOnlyWith(int owner, std::span<const std::vector<HeldRows>> all,
                                     int64_t classes, bool shards) {
  const ClassRange shard = ShardOf(owner, static_cast<int>(all.size()), classes);
  std::vector<std::vector<HeldRows>> held(all.begin(), all.end());
  held[static_cast<std::size_t>(owner)].clear();
  if (!shards) {
    for (auto& rows : held) std::erase_if(rows, [](const HeldRows& one) { return one.copy == 0; });
  }
  std::vector<ClassRange> only;
  for (const ClassRange& lost : PlanRows(held, classes).lost) {
    if (const ClassRange range = Overlap(lost, shard); range.size() > 0) only.push_back(range);
  }
  return only;
}

}  // namespace

RowPlan PlanRows(std::span<const std::vector<HeldRows>> held, int64_t classes) {
  RowPlan plan;
  std::multiset<Offer> offers;  // for the rows from `row` onwards
  int64_t row = 0;
  for (const Edge& edge : EdgesOf(held)) {
    const int64_t until = std::clamp<int64_t>(edge.row, row, classes);
    Append(plan, {row, until}, offers.empty() ? std::nullopt : std::optional(*offers.begin()));
    row = until;
    if (edge.begins) {
      offers.insert(edge.offer);
    } else {
      offers.erase(offers.find(edge.offer));
    }
  }
  Append(plan, {row, classes}, std::nullopt);
  return plan;
}

ClassRange ShardOf(int rank, int size, int64_t classes) {
  const Share share = ShareOf(rank, size, classes);
  return {share.begin, share.end};
}

std::vector<ClassRange> RowsToKeep(int rank, std::span<const std::vector<HeldRows>> held,
                                   int64_t classes) {
  std::vector<ClassRange> keep;
  for (int owner = 0; owner < static_cast<int>(held.size()); ++owner) {
    if (owner == rank) continue;
    for (const ClassRange& range : RowsOnlyWith(owner, held, classes, false)) {
      for (const HeldRows& mine : held[static_cast<std::size_t>(rank)]) {
        if (mine.copy != 0) continue;
        if (const ClassRange both = Overlap(mine.range, range); both.size() > 0) {
          keep.push_back(both);
        }
      }
    }
  }
  return keep;
}

int64_t CountRowsHeldOnce(std::span<const std::vector<HeldRows>> held, int64_t classes) {
  int64_t once = 0;
  for (int owner = 0; owner < static_cast<int>(held.size()); ++owner) {
    for (const ClassRange& range : RowsOnlyWith(owner, held, classes, true)) once += range.size();
  }
  return once;
}

ClassRange Overlap(ClassRange range, ClassRange window) {
  const int64_t begin = std::max(range.begin, window.begin);
  return {begin, std::max(begin, std::min(range.end, window.end))};
}

std::string Describe(std::span<const ClassRange> ranges) {
  if (ranges.empty()) return "no rows";
  std::string text =
      "rows " + std::to_string(ranges[0].begin) + " to " + std::to_string(ranges[0].end - 1);
  if (ranges.size() > 1) text += " and " + std::to_string(ranges.size() - 1) + " more ranges";
  return text;
}

}  // namespace ringmaster::trainer::partial_fc
