#pragma once

// The rules for the transition between worlds, as values and pure functions: who is a member, who
// is in the next world, whether enough Pods of the last world agree, and which members cannot reach
// each other. They do not depend on connections or time.

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/control/membership.h"

namespace ringmaster::launcher {

// The identity of a member: Pod UID, slot, start.
using MemberId = std::tuple<std::string, int, std::string>;
MemberId IdOf(const control::Member& member);
// To look one up without a copy; a view of the member.
inline auto KeyOf(const control::Member& member) {
  return std::tie(member.pod_uid, member.slot, member.start);
}
using MemberIds = std::set<MemberId, std::less<>>;

// The Pods of these members, each once.
std::set<std::string> PodsOf(const std::vector<control::Member>& members);

struct NextWorldInput {
  std::vector<control::Member> survivors;  // of the last world, in its order
  std::set<std::string> leavers;           // Pods that are to go
  const MemberIds& stateful;               // members that certainly hold the training's state
  std::vector<control::Member> joiners;    // in their order
};

// Survivors in their order, then joiners, with ranks from 0. Leavers are dropped once a remaining
// member certainly has the state; until then they stay, because theirs may be the only copy. Empty
// without survivors: joiners alone have no state to continue from.
std::vector<control::Member> NextWorld(NextWorldInput input);

// What is known about the last started world's Pods when the next one forms.
struct Quorum {
  int pods = 0;
  int known_dead = 0;          // by evidence
  int accepted = 0;            // with us, without a promise of a later epoch to others
  bool formed_here = false;    // that world, by this launcher
  bool all_accounted = false;  // none is missing: each is with us or known dead
};

// More than half of the Pods that are not known dead, or exactly half for the launcher that formed
// that world. A launcher that did not form it counts the dead ones too: they may have been members
// of later worlds that it has not heard of. When nobody is missing there is nobody to disagree.
bool HasQuorum(const Quorum& quorum);

// A world on its way: who has accepted its epoch so far.
class Proposal {
 public:
  Proposal(control::Epoch epoch, std::vector<control::Member> members);

  void Accept(const std::string& pod_uid) {
    if (accepted_.insert(pod_uid).second && pods_.contains(pod_uid)) ++agreed_;
  }
  bool Accepted(const std::string& pod_uid) const { return accepted_.contains(pod_uid); }
  bool AllAccepted() const { return agreed_ == pods_.size(); }
  bool Contains(const std::string& pod_uid) const { return pods_.contains(pod_uid); }

  const control::Epoch& epoch() const { return epoch_; }
  const std::vector<control::Member>& members() const { return members_; }
  const std::set<std::string>& pods() const { return pods_; }

 private:
  control::Epoch epoch_;
  std::vector<control::Member> members_;
  std::set<std::string> pods_;
  std::set<std::string> accepted_;  // also by others than its own Pods
  std::size_t agreed_ = 0;          // of its own
};

// The fewest ranks without which no pair is left, youngest (highest) first where there is a choice.
// Exact for up to two ranks; beyond that by the most pairs first.
std::vector<int> SmallestCover(const std::set<std::pair<int, int>>& pairs);

// Which ranks to drop if the ranks of one world cannot continue together.
struct Blame {
  std::vector<int> ranks;
  bool stalled = false;  // they said nothing while the others did
};

// `peers`: those who say that they cannot go on, with the rank that each could not reach, -1 where
// it does not know; not empty. `done`: ranks past their last step. The fewest ranks that explain
// all pairs; without pairs those who say nothing, if they are few; else the youngest of those who
// say it, as somebody has to go.
Blame FindCulprits(int world_size, const std::map<int, int>& peers, const std::set<int>& done);

}  // namespace ringmaster::launcher
