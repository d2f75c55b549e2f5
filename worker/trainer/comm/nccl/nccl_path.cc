#include "worker/trainer/comm/nccl/nccl_path.h"

#include <algorithm>

namespace ringmaster::trainer {
namespace {

bool OneVersion(std::span<const NcclStatement> ranks) {
  return std::ranges::all_of(
      ranks, [&](const NcclStatement& rank) { return rank.version == ranks.front().version; });
}

bool Descends(const NcclStatement& rank, const NcclStatement& first) {
  return rank.state != ParentState::kNone && rank.parent == first.parent &&
         rank.parent_size == first.parent_size;
}

// NCCL numbers the remaining ranks consecutively, in their previous order.
bool CanShrink(std::span<const NcclStatement> ranks) {
  const NcclStatement& first = ranks.front();
  if (first.version < kNcclShrinkSince || first.parent.empty()) return false;
  if (static_cast<int>(ranks.size()) >= first.parent_size) return false;
  int last = -1;
  for (const NcclStatement& rank : ranks) {
    if (!Descends(rank, first) || rank.parent_rank <= last) return false;
    last = rank.parent_rank;
  }
  return true;
}

bool CanGrow(std::span<const NcclStatement> ranks) {
  const NcclStatement& first = ranks.front();
  if (first.version < kNcclGrowSince || first.parent.empty()) return false;
  if (static_cast<int>(ranks.size()) <= first.parent_size) return false;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    const NcclStatement& statement = ranks[static_cast<std::size_t>(rank)];
    const bool old = Descends(statement, first);
    if (old != (rank < first.parent_size)) return false;
    if (old && (statement.state != ParentState::kHealthy || statement.parent_rank != rank)) {
      return false;
    }
  }
  return true;
}

}  // namespace

NcclPath PathOf(std::span<const NcclStatement> ranks) {
  if (ranks.empty() || !OneVersion(ranks)) return NcclPath::kNew;
  if (CanGrow(ranks)) return NcclPath::kGrow;
  if (!CanShrink(ranks)) return NcclPath::kNew;
  const bool all_revoked = std::ranges::all_of(
      ranks, [](const NcclStatement& rank) { return rank.state == ParentState::kRevoked; });
  return all_revoked ? NcclPath::kShrink : NcclPath::kShrinkAbort;
}

bool AllRegister(std::span<const NcclStatement> ranks) {
  return OneVersion(ranks) && std::ranges::all_of(ranks, &NcclStatement::registers);
}

std::vector<int> ExcludedFrom(std::span<const NcclStatement> ranks) {
  std::vector<int> excluded;
  for (int rank = 0; rank < ranks.front().parent_size; ++rank) {
    const bool stays = std::ranges::any_of(
        ranks, [&](const NcclStatement& statement) { return statement.parent_rank == rank; });
    if (!stays) excluded.push_back(rank);
  }
  return excluded;
}

}  // namespace ringmaster::trainer
