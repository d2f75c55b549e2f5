// Tests how soon a slot may join again after a crash.

#include "worker/launcher/model/cooldown.h"

#include <gtest/gtest.h>

#include "worker/launcher/model/restart_limit.h"

namespace ringmaster::launcher {
namespace {

using namespace std::chrono_literals;

const Cooldown::Time kBegin{1h};

TEST(Cooldown, DelaysByTheNumberOfRecentEnds) {
  struct Case {
    int ends;
    std::chrono::milliseconds delay;
  };
  for (const Case& c : {Case{0, 0s}, Case{1, 0s}, Case{2, 1s}, Case{3, 2s}, Case{4, 4s},
                        Case{7, 32s}, Case{8, 60s}, Case{9, 60s}, Case{1000, 60s}}) {
    EXPECT_EQ(Cooldown::Delay(c.ends), c.delay) << c.ends;
  }
}

TEST(Cooldown, OneEndInTenMinutesCostsNothing) {
  Cooldown cooldown;
  cooldown.Ended(kBegin, "a", 0);

  EXPECT_EQ(cooldown.Until(kBegin, "a", 0), kBegin);
  cooldown.Ended(kBegin + 10min, "a", 0);
  EXPECT_EQ(cooldown.Until(kBegin + 10min, "a", 0), kBegin + 10min);
}

TEST(Cooldown, HalvesEveryTenMinutes) {
  struct Case {
    std::chrono::minutes pause;
    std::chrono::milliseconds delay;  // delay after the seventh end
  };
  for (const Case& c : {Case{0min, 32s}, Case{9min, 32s}, Case{10min, 4s}, Case{20min, 1s},
                        Case{30min, 0s}, Case{600min, 0s}}) {
    Cooldown cooldown;
    for (int i = 0; i < 6; ++i) cooldown.Ended(kBegin, "a", 0);
    const auto later = kBegin + c.pause;

    cooldown.Ended(later, "a", 0);

    EXPECT_EQ(cooldown.Until(later, "a", 0), later + c.delay) << c.pause.count();
  }
}

TEST(Cooldown, OneSlotLeavesItsNeighboursAlone) {
  Cooldown cooldown;
  for (int i = 0; i < 4; ++i) cooldown.Ended(kBegin, "a", 0);

  EXPECT_EQ(cooldown.Until(kBegin, "a", 1), kBegin);
  EXPECT_EQ(cooldown.Until(kBegin, "b", 0), kBegin);
}

TEST(Cooldown, TwoSlotsHoldTheWholePod) {
  Cooldown cooldown;
  for (int i = 0; i < 4; ++i) cooldown.Ended(kBegin, "a", 0);
  for (int i = 0; i < 3; ++i) cooldown.Ended(kBegin, "a", 1);

  // Until() returns the time from which fewer than two slots wait.
  EXPECT_EQ(cooldown.Until(kBegin, "a", 7), kBegin + 2s);
  EXPECT_EQ(cooldown.Until(kBegin, "a", 0), kBegin + 4s);
  EXPECT_EQ(cooldown.Until(kBegin + 3s, "a", 7), kBegin + 3s);
}

TEST(RestartLimit, CountsWithinTheWindow) {
  RestartLimit limit(2, 1h);
  EXPECT_TRUE(limit.Count(kBegin));
  EXPECT_TRUE(limit.Count(kBegin + 1min));
  EXPECT_FALSE(limit.Count(kBegin + 2min));

  EXPECT_TRUE(limit.Count(kBegin + 1h));
}

TEST(RestartLimit, OfNoneAllowsNone) {
  RestartLimit limit(0, 1h);

  EXPECT_FALSE(limit.Count(kBegin));
}

}  // namespace
}  // namespace ringmaster::launcher
