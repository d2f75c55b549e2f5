#include "worker/launcher/model/change_progress.h"

#include <cstddef>

namespace ringmaster::launcher {

void ChangeProgress::ReachBoundary(Time now, int rank) {
  at_boundary.insert(rank);
  if (!first_at_boundary) first_at_boundary = now;
}

void ChangeProgress::Break(Time now, const control::RankBroken& word) {
  if (!first_broken_at) first_broken_at = now;
  broken[word.rank] = word;
}

void ChangeProgress::BreakUnlessReported(Time now, const control::RankBroken& word) {
  if (!broken.contains(word.rank)) Break(now, word);
}

bool ChangeProgress::AllReportedBoundary(const std::set<int>& done, int world_size) const {
  const auto size = static_cast<std::size_t>(world_size);
  if (at_boundary.size() + done.size() < size) return false;
  std::set<int> arrived = at_boundary;
  arrived.insert(done.begin(), done.end());
  return arrived.size() == size;
}

bool ChangeProgress::AllAtBoundary(Time now, const std::set<int>& done, int world_size,
                                   std::chrono::milliseconds patience) const {
  if (at_boundary.empty()) return false;
  return AllReportedBoundary(done, world_size) || now - *first_at_boundary > patience;
}

bool ChangeProgress::AllBroken(int world_size) const {
  return broken.size() == static_cast<std::size_t>(world_size);
}

std::map<int, int> ChangeProgress::BrokenPeers() const {
  std::map<int, int> peers;
  for (const auto& [rank, word] : broken) peers[rank] = word.peer;
  return peers;
}

}  // namespace ringmaster::launcher
