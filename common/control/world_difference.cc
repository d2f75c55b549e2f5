#include "common/control/world_difference.h"

#include <algorithm>
#include <iterator>

namespace ringmaster::control {
namespace {

bool SameButForRank(const Member& a, const Member& b) {
  return a.pod_uid == b.pod_uid && a.slot == b.slot && a.start == b.start && a.pod == b.pod &&
         a.node == b.node && a.address == b.address;
}

}  // namespace

std::optional<ChangeEpoch> DifferenceFrom(const Epoch& base,
                                          const std::vector<Member>& base_members,
                                          const Epoch& epoch, int64_t cohort,
                                          const std::vector<Member>& members) {
  ChangeEpoch change{.epoch = epoch, .cohort = cohort, .base = base, .left = {}, .joined = {}};
  std::size_t kept = 0;
  for (std::size_t rank = 0; rank < base_members.size(); ++rank) {
    if (kept < members.size() && SameButForRank(base_members[rank], members[kept])) {
      ++kept;
    } else if (!change.left.empty() &&
               change.left.back().first + change.left.back().count == static_cast<int>(rank)) {
      ++change.left.back().count;
    } else {
      change.left.push_back({static_cast<int>(rank), 1});
    }
  }
  if (kept == 0) return std::nullopt;
  change.joined.assign(members.begin() + static_cast<std::ptrdiff_t>(kept), members.end());
  return change;
}

std::optional<std::vector<Member>> MembersAfter(const std::vector<Member>& base_members,
                                                const ChangeEpoch& change) {
  std::vector<Member> members;
  members.reserve(base_members.size() + change.joined.size());
  int next = 0;
  const auto keep_until = [&](int rank) {
    members.insert(members.end(), base_members.begin() + next, base_members.begin() + rank);
  };
  const int size = static_cast<int>(base_members.size());
  for (const RankRange& range : change.left) {
    if (range.first < next || range.count < 1 || range.first > size - range.count) {
      return std::nullopt;
    }
    keep_until(range.first);
    next = range.first + range.count;
  }
  keep_until(size);
  members.insert(members.end(), change.joined.begin(), change.joined.end());
  if (members.size() > static_cast<std::size_t>(kMaxRanks)) return std::nullopt;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    members[rank].rank = static_cast<int>(rank);
  }
  return members;
}

}  // namespace ringmaster::control
