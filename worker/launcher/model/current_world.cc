#include "worker/launcher/model/current_world.h"

#include <utility>

namespace ringmaster::launcher {

CurrentWorld::CurrentWorld(control::Epoch epoch, std::vector<control::Member> members,
                           int full_size)
    : epoch_(epoch), members_(std::move(members)), full_size_(full_size) {
  for (const control::Member& member : members_) {
    pods_.insert(member.pod_uid);
    ranks_of_[member.pod_uid].push_back(member.rank);
  }
}

bool CurrentWorld::RunsIn(const std::string& pod_uid, int rank) const {
  return rank >= 0 && rank < size() && member(rank).pod_uid == pod_uid;
}

const std::vector<int>& CurrentWorld::RanksOf(const std::string& pod_uid) const {
  static const std::vector<int> kNone;
  const auto found = ranks_of_.find(pod_uid);
  return found == ranks_of_.end() ? kNone : found->second;
}

const control::Member* CurrentWorld::At(const std::string& pod_uid, int slot) const {
  for (const int rank : RanksOf(pod_uid)) {
    if (member(rank).slot == slot) return &member(rank);
  }
  return nullptr;
}

void CurrentWorld::Load(int rank, const std::string& start) {
  members_[static_cast<std::size_t>(rank)].start = start;
}

}  // namespace ringmaster::launcher
