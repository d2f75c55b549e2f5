#pragma once

// The ranks that train together: an epoch and its members by rank. The next world replaces
// the whole object. Only Load() changes the object, while the processes of the first world
// load.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/control/membership.h"

namespace ringmaster::launcher {

class CurrentWorld {
 public:
  CurrentWorld() = default;
  // `members` are in rank order, from 0. `full_size`: the number of ranks that the job wanted when
  // the world began; 0: not known.
  CurrentWorld(control::Epoch epoch, std::vector<control::Member> members, int full_size = 0);

  const control::Epoch& epoch() const { return epoch_; }
  const std::vector<control::Member>& members() const { return members_; }
  const std::set<std::string>& pods() const { return pods_; }
  int size() const { return static_cast<int>(members_.size()); }
  int full_size() const { return full_size_; }

  bool Contains(const std::string& pod_uid) const { return pods_.contains(pod_uid); }
  // REQUIRES: 0 <= rank < size().
  const control::Member& member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  // Returns whether this rank exists and runs in this Pod.
  bool RunsIn(const std::string& pod_uid, int rank) const;
  // Returns an empty list for a Pod that is not in this world.
  const std::vector<int>& RanksOf(const std::string& pod_uid) const;
  const std::map<std::string, std::vector<int>>& ranks_by_pod() const { return ranks_of_; }
  // Returns null if no member runs in that slot.
  const control::Member* At(const std::string& pod_uid, int slot) const;

  // Records that the process of this rank has loaded.
  void Load(int rank, const std::string& start);

 private:
  control::Epoch epoch_;
  std::vector<control::Member> members_;
  std::set<std::string> pods_;
  std::map<std::string, std::vector<int>> ranks_of_;
  int full_size_ = 0;
};

}  // namespace ringmaster::launcher
