// Tests which workers are in the next world, whether it may form, and which ranks lost each other.

#include "worker/launcher/model/next_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

control::Member Of(const std::string& pod, int slot = 0, const std::string& start = "1") {
  return {pod, pod, "node", "10.0.0.1", slot, start, 7};
}

std::vector<std::string> Pods(const std::vector<control::Member>& members) {
  std::vector<std::string> pods;
  for (const control::Member& member : members) pods.push_back(member.pod_uid);
  return pods;
}

TEST(NextWorld, KeepsSurvivorsInOrderAndPutsJoinersLast) {
  const auto next = NextWorld({{Of("c"), Of("a")}, {}, {}, {Of("b"), Of("d")}});

  EXPECT_THAT(Pods(next), ElementsAre("c", "a", "b", "d"));
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(next[static_cast<std::size_t>(rank)].rank, rank);
}

TEST(NextWorld, HasNoJoinersWithoutSurvivors) {
  EXPECT_THAT(NextWorld({{}, {}, {}, {Of("a")}}), IsEmpty());
}

TEST(NextWorld, RemovesLeaversOnlyIfTheStateStays) {
  const auto id = [](const std::string& pod) { return IdOf(Of(pod)); };
  struct Case {
    const char* what;
    std::set<std::string> leavers;
    MemberIds stateful;
    std::vector<std::string> next;  // members of the next world if a and b survive and j joins
  };
  const Case cases[] = {
      {"one of two", {"b"}, {id("a"), id("b")}, {"a", "j"}},
      {"all", {"a", "b"}, {id("a"), id("b")}, {"a", "b", "j"}},
      {"the only one with state", {"a"}, {id("a")}, {"a", "b", "j"}},
      {"nobody is known to have it", {"b"}, {}, {"a", "b", "j"}},
      {"another start of that slot", {"b"}, {IdOf(Of("a", 0, "2")), id("b")}, {"a", "b", "j"}},
  };
  for (const Case& c : cases) {
    const auto next = NextWorld({{Of("a"), Of("b")}, c.leavers, c.stateful, {Of("j")}});
    EXPECT_EQ(Pods(next), c.next) << c.what;
  }
}

TEST(HasQuorum, IsMoreThanHalfOrHalfOfOnesOwn) {
  struct Case {
    const char* what;
    Quorum quorum;  // pods, known_dead, accepted, formed_here, all_accounted
    bool enough;
  };
  const Case cases[] = {
      {"all", {3, 0, 3, true, false}, true},
      {"two of three", {3, 0, 2, false, false}, true},
      {"one of three", {3, 0, 1, true, false}, false},
      {"half, formed here", {4, 0, 2, true, false}, true},
      {"half, formed by another", {4, 0, 2, false, false}, false},
      {"the dead do not count", {4, 1, 2, true, false}, true},
      {"one of two is dead", {2, 1, 1, true, false}, true},
      {"the dead count where another formed it", {4, 1, 2, false, false}, false},
      {"nobody is missing", {4, 3, 1, false, true}, true},
      {"none of two silent ones", {2, 0, 0, true, false}, false},
  };
  for (const Case& c : cases) EXPECT_EQ(HasQuorum(c.quorum), c.enough) << c.what;
}

TEST(HasQuorum, NeverLetsTwoDisjointPartsContinue) {
  // Tries all numbers of Pods that are connected to the first launcher, the second or neither, and
  // all numbers of dead Pods that one launcher, both or neither know.
  for (int pods = 1; pods <= 6; ++pods) {
    for (int mine = 0; mine <= pods; ++mine) {
      for (int theirs = 0; mine + theirs <= pods; ++theirs) {
        for (int dead = 0; mine + theirs + dead <= pods; ++dead) {
          for (int known_here = 0; known_here <= dead; ++known_here) {
            for (int known_there = 0; known_there <= dead; ++known_there) {
              if (mine == 0 || theirs == 0) continue;
              const Quorum here{pods, known_here, mine, true, mine + known_here == pods};
              const Quorum there{pods, known_there, theirs, false, theirs + known_there == pods};
              EXPECT_FALSE(HasQuorum(here) && HasQuorum(there))
                  << pods << ": " << mine << " and " << theirs << ", dead " << dead;
            }
          }
        }
      }
    }
  }
}

TEST(Proposal, NeedsEachOfItsPods) {
  Proposal proposal({1, 2}, {Of("a", 0), Of("a", 1), Of("b")});
  proposal.Accept("a");
  proposal.Accept("x");
  EXPECT_FALSE(proposal.AllAccepted());

  proposal.Accept("b");

  EXPECT_TRUE(proposal.AllAccepted());
}

TEST(SmallestCover, DropsTheFewestYoungestFirst) {
  struct Case {
    const char* what;
    std::set<std::pair<int, int>> pairs;
    std::vector<int> cover;
  };
  const Case cases[] = {
      {"none", {}, {}},
      {"one pair", {{0, 1}}, {1}},
      {"one rank that nobody reaches", {{0, 1}, {1, 2}, {1, 3}}, {1}},
      {"rank 0 that nobody reaches", {{0, 1}, {0, 2}}, {0}},
      {"two pairs", {{0, 1}, {2, 3}}, {3, 1}},
      {"a triangle", {{0, 1}, {0, 2}, {1, 2}}, {2, 1}},
      {"three pairs", {{0, 1}, {2, 3}, {4, 5}}, {5, 3, 1}},
      {"two, though a third is in as many pairs", {{0, 2}, {0, 3}, {1, 2}, {1, 4}}, {1, 0}},
  };
  for (const Case& c : cases) EXPECT_EQ(SmallestCover(c.pairs), c.cover) << c.what;
}

TEST(FindCulprits, PairsThenTheSilentFewThenTheYoungest) {
  using Peers = std::map<int, int>;
  struct Case {
    const char* what;
    int size;
    Peers peers;
    std::set<int> done;
    std::vector<int> ranks;
    bool stalled;
  };
  const Case cases[] = {
      {"two name a third", 3, {{0, 1}, {2, 1}}, {}, {1}, false},
      {"two name the first", 3, {{1, 0}, {2, 0}}, {}, {0}, false},
      {"a pair counts more than silence", 4, {{0, 2}, {1, -1}, {2, -1}}, {}, {2}, false},
      {"few are silent", 5, {{0, -1}, {2, -1}, {4, -1}}, {}, {1, 3}, true},
      {"half is not few", 2, {{0, -1}}, {}, {0}, false},
      {"most are silent", 3, {{1, -1}}, {}, {1}, false},
      {"a member that is done has nothing to say", 3, {{0, -1}, {1, -1}}, {2}, {1}, false},
      {"nobody is silent", 3, {{0, -1}, {1, -1}, {2, -1}}, {}, {2}, false},
      {"a peer that is none", 2, {{0, 7}, {1, 1}}, {}, {1}, false},
  };
  for (const Case& c : cases) {
    const Blame blame = FindCulprits(c.size, c.peers, c.done);
    EXPECT_EQ(blame.ranks, c.ranks) << c.what;
    EXPECT_EQ(blame.stalled, c.stalled) << c.what;
  }
}

}  // namespace
}  // namespace ringmaster::launcher
