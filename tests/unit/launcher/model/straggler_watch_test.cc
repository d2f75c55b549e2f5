// Tests which ranks count as slow, and when this begins and ends.

#include "worker/launcher/model/straggler_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

using namespace std::chrono_literals;

control::Member MemberOf(int rank) {
  control::Member member;
  member.pod_uid = "uid-" + std::to_string(rank);
  member.start = "first";
  member.rank = rank;
  return member;
}

struct Ranks {
  explicit Ranks(int count) {
    for (int rank = 0; rank < count; ++rank) members.push_back(MemberOf(rank));
    watch.Begin(members);
  }
  // Trains with a step every 100 ms. `own_millis`: the time of each rank's own part of a step.
  void Train(const std::vector<int64_t>& own_millis, std::chrono::milliseconds time) {
    for (auto passed = 0ms; passed < time; passed += 100ms) {
      now += 100ms;
      ++step;
      for (std::size_t rank = 0; rank < own_millis.size(); ++rank) {
        watch.Report(now, members[rank], step, own_millis[rank] * 1000);
      }
    }
  }
  std::vector<int> Slow() const {
    std::vector<int> ranks;
    for (const auto& slow : watch.Stragglers(now)) {
      ranks.push_back(std::stoi(std::get<0>(slow.id).substr(4)));
    }
    return ranks;
  }

  Clock::Time now{std::chrono::hours(1)};
  int64_t step = 0;
  std::vector<control::Member> members;
  StragglerWatch watch;
};

using Slow = std::vector<int>;

TEST(StragglerWatch, NamesWhoIsSlowForLong) {
  Ranks ranks(3);
  ranks.Train({80, 130, 80}, 9900ms);
  EXPECT_EQ(ranks.Slow(), Slow{});
  ranks.Train({80, 130, 80}, 1s);
  ASSERT_EQ(ranks.Slow(), Slow{1});
  const auto slow = ranks.watch.Stragglers(ranks.now).at(0);
  EXPECT_NEAR(slow.own_micros, 130'000, 1);
  EXPECT_NEAR(slow.median_micros, 80'000, 1);
  EXPECT_GE(ranks.now - slow.since, 10s);
}

TEST(StragglerWatch, CountsNoStepThatTookNoTime) {
  Ranks ranks(1);
  ranks.watch.Report(ranks.now, ranks.members[0], 1, 0);
  EXPECT_FALSE(ranks.watch.OwnMicros(ranks.members[0]));

  ranks.watch.Report(ranks.now, ranks.members[0], 2, 1);
  EXPECT_EQ(ranks.watch.OwnMicros(ranks.members[0]), 1);
}

TEST(StragglerWatch, NamesTheSlowestFirst) {
  Ranks ranks(5);
  ranks.Train({80, 130, 80, 200, 80}, 11s);
  EXPECT_EQ(ranks.Slow(), (Slow{3, 1}));
}

TEST(StragglerWatch, NamesTheSlowerOneOfTwo) {
  Ranks ranks(2);
  ranks.Train({80, 130}, 11s);
  EXPECT_EQ(ranks.Slow(), Slow{1});
}

TEST(StragglerWatch, NamesEachOfManyThatAreEquallySlow) {
  Ranks ranks(50);
  std::vector<int64_t> own_millis(50, 80);
  Slow slow;
  for (int rank = 0; rank < 20; ++rank) {
    own_millis[static_cast<std::size_t>(rank)] = 130;
    slow.push_back(rank);
  }
  ranks.Train(own_millis, 11s);
  EXPECT_THAT(ranks.Slow(), testing::UnorderedElementsAreArray(slow));
}

TEST(StragglerWatch, NamesNoRankForLess) {
  struct Case {
    const char* name;
    std::vector<int64_t> own_millis;
  };
  const Case cases[] = {{"a little slower", {80, 115, 80}},
                        {"all slow", {500, 500, 500}},
                        {"one much faster", {10, 80, 80}},
                        {"alone", {80}}};
  for (const Case& c : cases) {
    Ranks ranks(static_cast<int>(c.own_millis.size()));
    ranks.Train(c.own_millis, 1min);
    EXPECT_EQ(ranks.Slow(), Slow{}) << c.name;
  }
  Ranks noise(3);
  for (int i = 0; i < 200; ++i) {
    noise.now += 100ms;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      noise.watch.Report(noise.now, noise.members[rank], i + 1, rank == 1 ? 1900 : 1000);
    }
  }
  EXPECT_EQ(noise.Slow(), Slow{}) << "less than a millisecond is noise";
}

TEST(StragglerWatch, ForgetsAShortHiccup) {
  Ranks ranks(3);
  ranks.Train({80, 130, 80}, 8s);
  ranks.Train({80, 80, 80}, 2s);
  ranks.Train({80, 130, 80}, 9s);
  EXPECT_EQ(ranks.Slow(), Slow{});
}

TEST(StragglerWatch, KeepsARankUntilItHasClearlyRecovered) {
  Ranks ranks(3);
  ranks.Train({80, 130, 80}, 12s);
  ASSERT_EQ(ranks.Slow(), Slow{1});
  ranks.Train({80, 110, 80}, 10s);
  EXPECT_EQ(ranks.Slow(), Slow{1}) << "above 1.25 times the median";
  ranks.Train({80, 90, 80}, 10s);
  EXPECT_EQ(ranks.Slow(), Slow{});
}

TEST(StragglerWatch, HasToRecoverClearlyFromTheTenthSecondOn) {
  Ranks ranks(3);
  ranks.Train({80, 130, 80}, 10s);  // rank 1 is slow from its first step on, so for 9.9 s
  ranks.Train({80, 30, 80}, 100ms);
  EXPECT_NEAR(*ranks.watch.OwnMicros(ranks.members[1]), 110'000, 1);
  EXPECT_EQ(ranks.Slow(), Slow{1});
}

TEST(StragglerWatch, OfALargeWorldTheMedianIsFoundAFewTimesASecond) {
  struct Case {
    int count;
    std::chrono::milliseconds later;  // time until rank 0's report, in addition to 100 ms
    Slow slow;
  };
  for (const Case& c :
       {Case{64, 0ms, {0}}, Case{65, 0ms, {}}, Case{65, 99ms, {}}, Case{65, 100ms, {0}}}) {
    const int count = c.count;
    Ranks ranks(count);
    const auto report = [&](int rank, int64_t own_millis) {
      for (int i = 0; i < 20; ++i) {
        const control::Member& member = ranks.members[static_cast<std::size_t>(rank)];
        ranks.watch.Report(ranks.now, member, ++ranks.step, own_millis * 1000);
      }
    };
    for (int rank = 0; rank < count; ++rank) report(rank, 300);
    ranks.now += 200ms;
    for (int rank = 0; rank < count; ++rank) report(rank, 300);
    ranks.now += 100ms;
    for (int rank = 1; rank < count; ++rank) report(rank, 80);
    ranks.now += c.later;
    report(0, 130);  // rank 0 is slow only compared with a newer median
    ranks.now += 10s;

    EXPECT_EQ(ranks.Slow(), c.slow) << count << " " << c.later.count();
  }
}

TEST(StragglerWatch, NoRankIsSlowInALargeWorldThatBecameSlow) {
  Ranks ranks(70);
  ranks.Train(std::vector<int64_t>(70, 80), 1s);
  ranks.Train(std::vector<int64_t>(70, 400), 20s);
  EXPECT_EQ(ranks.Slow(), Slow{});
}

TEST(StragglerWatch, KnowsThemInTheNextWorldToo) {
  Ranks ranks(3);
  ranks.Train({80, 130, 80}, 12s);
  ranks.watch.Begin({MemberOf(1), MemberOf(2)});
  EXPECT_EQ(ranks.Slow(), Slow{1});
  ranks.watch.Begin({MemberOf(0), MemberOf(2)});
  EXPECT_EQ(ranks.Slow(), Slow{});
}

}  // namespace
}  // namespace ringmaster::launcher
