// Tests the compact encoding of worlds: members by host, and differences of two worlds.

#include "common/control/world_difference.h"

#include <random>
#include <tuple>

#include <gtest/gtest.h>

#include "common/control/messages.h"

namespace ringmaster::control {
namespace {

Member Of(int host, int slot, const std::string& start = "n-1") {
  const std::string name = std::to_string(host);
  return {"uid-" + name, "w-" + name, "node-" + name, "10.0.0." + name, slot, start, 0};
}

std::vector<Member> Ranked(std::vector<Member> members) {
  for (std::size_t i = 0; i < members.size(); ++i) members[i].rank = static_cast<int>(i);
  return members;
}

auto Names(const std::vector<Member>& members) {
  std::vector<std::tuple<std::string, std::string, std::string, std::string, int, std::string, int>>
      names;
  for (const Member& one : members) {
    names.emplace_back(one.pod_uid, one.pod, one.node, one.address, one.slot, one.start, one.rank);
  }
  return names;
}

TEST(Members, KeepTheirOrderOverTheWire) {
  const std::vector<std::vector<Member>> worlds = {
      {},
      {Of(0, 0)},
      {Of(0, 0), Of(0, 1), Of(1, 0), Of(1, 1)},
      {Of(1, 1), Of(0, 0), Of(1, 0, "n-4"), Of(0, 1, ""), Of(2, 0, "\xc3\xa9")},
      {Of(0, 0, "\xc3\xa9"), Of(0, 1, "\xc3\xa8")},
  };
  for (const std::vector<Member>& world : worlds) {
    const auto decoded = Decode(Encode(StartEpoch{{1, 2}, 3, world}));
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(Names(std::get<StartEpoch>(*decoded).members), Names(Ranked(world)));
  }
}

TEST(Members, AreRefusedIfInconsistent) {
  const std::string line = Encode(StartEpoch{{1, 2}, 3, {Of(0, 0), Of(0, 1)}});
  const auto refused = [&](const std::string& what, const std::string& with) {
    std::string changed = line;
    EXPECT_NE(changed.find(what), std::string::npos) << line;
    changed.replace(changed.find(what), what.size(), with);
    return !Decode(changed).ok();
  };
  EXPECT_TRUE(refused("\"order\":[0,2]", "\"order\":[0,1]"));
  EXPECT_TRUE(refused("\"order\":[0,2]", "\"order\":[0,3]"));
  EXPECT_TRUE(refused("\"order\":[0,2]", "\"order\":[1,2]"));
  EXPECT_TRUE(refused("\"order\":[0,2]", "\"order\":[0]"));
  EXPECT_TRUE(refused("\"order\":[0,2]", "\"order\":[0,-2]"));
  EXPECT_TRUE(refused("\"order\":[0,2]", "\"order\":7"));
  EXPECT_TRUE(refused("\"slots\":[0,1]", "\"slots\":[0]"));
  EXPECT_TRUE(refused("\"slots\":[0,1]", "\"slots\":[0,99999999999]"));
  EXPECT_TRUE(refused("\"hosts\":", "\"guests\":"));
  EXPECT_FALSE(refused("\"slots\":[0,1]", "\"slots\":[0,2]"));
  // The decoded world would be too large: a host's start is repeated for each of its ranks.
  EXPECT_TRUE(refused("\"start\":\"", "\"start\":\"" + std::string(1024, 'n')));
  EXPECT_TRUE(refused("\"podUid\":\"", "\"podUid\":\"" + std::string(1024, 'n')));

  std::string hosts;
  for (int i = 0; i <= kMaxRanks; ++i) {
    hosts += R"({"podUid":"","pod":"","node":"","address":"","slots":[],"start":"","starts":[]},)";
  }
  EXPECT_TRUE(refused("\"hosts\":[", "\"hosts\":[" + hosts));
}

TEST(WorldDifference, LeadsFromAnyWorldToTheNext) {
  std::mt19937 random(7);
  std::vector<Member> base = Ranked({Of(0, 0), Of(0, 1), Of(1, 0), Of(1, 1)});
  for (int round = 0; round < 500; ++round) {
    std::vector<Member> next;
    for (const Member& member : base) {
      if (random() % 5 != 0) next.push_back(member);
    }
    for (unsigned joins = random() % 4; joins > 0; --joins) {
      next.push_back(Of(static_cast<int>(random() % 9), static_cast<int>(random() % 4),
                        "n-" + std::to_string(round)));
    }
    next = Ranked(std::move(next));
    const auto change = DifferenceFrom({1, round}, base, {1, round + 1}, 1, next);
    if (change) {
      const auto heard = Decode(Encode(*change));
      ASSERT_TRUE(heard.ok()) << heard.error().message;
      const auto after = MembersAfter(base, std::get<ChangeEpoch>(*heard));
      ASSERT_TRUE(after);
      ASSERT_EQ(Names(*after), Names(next));
    }
    if (!next.empty()) base = next;
  }
}

TEST(WorldDifference, IsRefusedIfItsRangesAreInvalid) {
  const std::vector<Member> base = Ranked({Of(0, 0), Of(0, 1), Of(1, 0)});
  const auto fits = [&](std::vector<RankRange> left) {
    return MembersAfter(base, {{1, 2}, 1, {1, 1}, std::move(left), {}}).has_value();
  };
  EXPECT_TRUE(fits({}));
  EXPECT_TRUE(fits({{0, 1}, {2, 1}}));
  EXPECT_FALSE(fits({{2, 1}, {0, 1}}));
  EXPECT_FALSE(fits({{0, 2}, {1, 1}}));
  EXPECT_FALSE(fits({{3, 1}}));
  EXPECT_FALSE(fits({{-1, 1}}));
  EXPECT_FALSE(fits({{1, 0}}));
  EXPECT_FALSE(fits({{1, 2147483647}}));
}

}  // namespace
}  // namespace ringmaster::control
