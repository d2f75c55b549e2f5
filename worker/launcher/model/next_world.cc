#include "worker/launcher/model/next_world.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

namespace ringmaster::launcher {
namespace {

using Pair = std::pair<int, int>;

bool Touches(const Pair& pair, int rank) { return pair.first == rank || pair.second == rank; }

// Returns the pairs that contain neither `first` nor `second`.
std::vector<Pair> Without(const std::vector<Pair>& pairs, int first, int second) {
  std::vector<Pair> rest;
  std::copy_if(pairs.begin(), pairs.end(), std::back_inserter(rest),
               [&](const Pair& pair) { return !Touches(pair, first) && !Touches(pair, second); });
  return rest;
}

// Returns one or two ranks, preferably young, such that each pair contains one of them; empty if
// more are needed. One is from the first pair, the other from the first pair without the former.
std::vector<int> SmallCover(const std::vector<Pair>& pairs) {
  const auto [low, high] = pairs.front();
  for (const int rank : {high, low}) {
    if (Without(pairs, rank, rank).empty()) return {rank};
  }
  std::vector<int> best;
  for (const int rank : {high, low}) {
    const std::vector<Pair> left = Without(pairs, rank, rank);
    for (const int other : {left.front().first, left.front().second}) {
      if (!Without(left, other, other).empty()) continue;
      best = std::max(best, {std::max(rank, other), std::min(rank, other)});
    }
  }
  return best;
}

// Returns the rank that is in the most pairs; if there are several, the youngest of them.
int MostPaired(const std::vector<Pair>& pairs) {
  std::map<int, int, std::greater<>> degrees;
  for (const auto& [one, other] : pairs) {
    ++degrees[one];
    ++degrees[other];
  }
  return std::max_element(degrees.begin(), degrees.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace

MemberId IdOf(const control::Member& member) { return {member.pod_uid, member.slot, member.start}; }

std::set<std::string> PodsOf(const std::vector<control::Member>& members) {
  std::set<std::string> pods;
  const std::string* last = nullptr;  // members of a Pod are usually adjacent
  for (const control::Member& member : members) {
    if (last == nullptr || *last != member.pod_uid) pods.insert(member.pod_uid);
    last = &member.pod_uid;
  }
  return pods;
}

std::vector<control::Member> NextWorld(NextWorldInput input) {
  std::vector<control::Member> next = std::move(input.survivors);
  if (next.empty()) return {};
  const auto leaves = [&](const control::Member& member) {
    return input.leavers.contains(member.pod_uid);
  };
  const bool state_stays = std::any_of(next.begin(), next.end(), [&](const auto& member) {
    return !leaves(member) && input.stateful.contains(KeyOf(member));
  });
  if (state_stays) std::erase_if(next, leaves);
  std::move(input.joiners.begin(), input.joiners.end(), std::back_inserter(next));
  int rank = 0;
  for (control::Member& member : next) member.rank = rank++;
  return next;
}

bool HasQuorum(const Quorum& quorum) {
  if (quorum.all_accounted) return true;
  const int voters = quorum.formed_here ? quorum.pods - quorum.known_dead : quorum.pods;
  return 2 * quorum.accepted > voters || (quorum.formed_here && 2 * quorum.accepted == voters);
}

Proposal::Proposal(control::Epoch epoch, std::vector<control::Member> members)
    : epoch_(epoch), members_(std::move(members)), pods_(PodsOf(members_)) {}

std::vector<int> SmallestCover(const std::set<std::pair<int, int>>& pairs) {
  std::vector<Pair> left(pairs.begin(), pairs.end());
  std::vector<int> cover;
  while (!left.empty()) {
    const std::vector<int> rest = SmallCover(left);
    cover.insert(cover.end(), rest.begin(), rest.end());
    if (!rest.empty()) break;
    cover.push_back(MostPaired(left));
    left = Without(left, cover.back(), cover.back());
  }
  return cover;
}

Blame FindCulprits(int world_size, const std::map<int, int>& peers, const std::set<int>& done) {
  std::set<Pair> pairs;
  for (const auto& [rank, peer] : peers) {
    if (peer >= 0 && peer < world_size && peer != rank) {
      pairs.insert({std::min(rank, peer), std::max(rank, peer)});
    }
  }
  if (!pairs.empty()) return {SmallestCover(pairs), false};
  Blame silent{{}, true};
  for (int rank = 0; rank < world_size; ++rank) {
    if (!peers.contains(rank) && !done.contains(rank)) silent.ranks.push_back(rank);
  }
  const int count = static_cast<int>(silent.ranks.size());
  if (count > 0 && 2 * count < world_size) return silent;
  return {{peers.rbegin()->first}, false};
}

}  // namespace ringmaster::launcher
