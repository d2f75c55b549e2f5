#pragma once

// The rules for the transition between worlds, as values and pure functions: the identity of
// members, the members of the next world, the quorum of the last world's Pods, and the ranks to
// drop if ranks cannot reach each other. The rules do not depend on connections or time.

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
// Returns a key to look up a member without copying it. The key refers to fields of `member`.
inline auto KeyOf(const control::Member& member) {
  return std::tie(member.pod_uid, member.slot, member.start);
}
using MemberIds = std::set<MemberId, std::less<>>;

// Returns the Pods of these members without duplicates.
std::set<std::string> PodsOf(const std::vector<control::Member>& members);

struct NextWorldInput {
  std::vector<control::Member> survivors;  // remaining members, in the order of the last world
  std::set<std::string> leavers;           // Pods that must leave
  const MemberIds& stateful;               // members that certainly have the training state
  std::vector<control::Member> joiners;    // new members, in rank order
};

// Returns survivors in their order, then joiners, with ranks from 0. Drops leavers if a remaining
// member certainly has the state; otherwise leavers stay, because they may have the only copy.
// Without survivors, the result is empty, because joiners have no state to continue from.
std::vector<control::Member> NextWorld(NextWorldInput input);

// The Pods of the last started world, counted when the next world forms.
struct Quorum {
  int pods = 0;
  int known_dead = 0;          // Pods that are proven to be dead
  int accepted = 0;            // take part and accepted no later epoch of another launcher
  bool formed_here = false;    // whether this launcher formed that world
  bool all_accounted = false;  // whether each Pod takes part or is known to be dead
};

// Returns whether a majority of the Pods accepted. If this launcher formed that world, dead Pods do
// not count and exactly half is enough; otherwise dead Pods count, because they may have been in
// later worlds of another launcher. Also true if no Pod is missing, because none can disagree.
bool HasQuorum(const Quorum& quorum);

// A proposed world, and the Pods that have accepted its epoch so far.
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
  std::set<std::string> accepted_;  // may include Pods outside of the proposal
  std::size_t agreed_ = 0;          // number of Pods of the proposal that accepted
};

// Returns the fewest ranks such that each pair contains one of them, preferring younger (higher)
// ones. The result is exact for up to two ranks; beyond that, it prefers ranks with the most pairs.
std::vector<int> SmallestCover(const std::set<std::pair<int, int>>& pairs);

// The ranks to drop if the ranks of a world cannot continue together.
struct Blame {
  std::vector<int> ranks;
  bool stalled = false;  // whether the ranks were chosen because they are silent
};

// `peers` (not empty) has an entry for each rank that cannot continue: the rank that it could not
// reach (-1: unknown). `done`: ranks past their last step. Returns the fewest ranks that explain
// all reports that name a peer. If no report names a peer, returns the silent ranks if they are
// fewer than half, otherwise the youngest rank that reported.
Blame FindCulprits(int world_size, const std::map<int, int>& peers, const std::set<int>& done);

}  // namespace ringmaster::launcher
