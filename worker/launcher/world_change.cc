#include "worker/launcher/world_change.h"

#include <algorithm>
#include <map>

namespace ringmaster::launcher {
namespace {

using Pairs = std::set<std::pair<int, int>>;

bool Covers(const Pairs& pairs, int first, int second) {
  return std::all_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
    return pair.first == first || pair.second == first || pair.first == second ||
           pair.second == second;
  });
}

std::vector<int> RanksOf(const Pairs& pairs) {  // youngest first
  std::set<int, std::greater<>> ranks;
  for (const auto& [one, other] : pairs) ranks.insert({one, other});
  return {ranks.begin(), ranks.end()};
}

}  // namespace

MemberId IdOf(const control::Member& member) { return {member.pod_uid, member.slot, member.start}; }

std::set<std::string> PodsOf(const std::vector<control::Member>& members) {
  std::set<std::string> pods;
  for (const control::Member& member : members) pods.insert(member.pod_uid);
  return pods;
}

std::vector<control::Member> NextWorld(const NextWorldInput& input) {
  if (input.survivors.empty()) return {};
  std::vector<control::Member> next;
  for (const control::Member& member : input.survivors) {
    if (!input.leavers.contains(member.pod_uid)) next.push_back(member);
  }
  const bool state_stays = std::any_of(next.begin(), next.end(), [&](const auto& member) {
    return input.stateful.contains(IdOf(member));
  });
  if (!state_stays) next = input.survivors;
  next.insert(next.end(), input.joiners.begin(), input.joiners.end());
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

bool Proposal::AllAccepted() const {
  return std::includes(accepted_.begin(), accepted_.end(), pods_.begin(), pods_.end());
}

std::vector<int> SmallestCover(const Pairs& pairs) {
  if (pairs.empty()) return {};
  const std::vector<int> ranks = RanksOf(pairs);
  for (const int rank : ranks) {
    if (Covers(pairs, rank, rank)) return {rank};
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (std::size_t j = i + 1; j < ranks.size(); ++j) {
      if (Covers(pairs, ranks[i], ranks[j])) return {ranks[i], ranks[j]};
    }
  }
  std::map<int, int, std::greater<>> degrees;
  for (const auto& [one, other] : pairs) {
    ++degrees[one];
    ++degrees[other];
  }
  const int most =
      std::max_element(degrees.begin(), degrees.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->first;
  Pairs rest;
  for (const auto& pair : pairs) {
    if (pair.first != most && pair.second != most) rest.insert(pair);
  }
  std::vector<int> cover = SmallestCover(rest);
  cover.insert(cover.begin(), most);
  return cover;
}

Blame WhoHoldsUp(int world_size, const std::map<int, int>& peers, const std::set<int>& done) {
  Pairs pairs;
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
