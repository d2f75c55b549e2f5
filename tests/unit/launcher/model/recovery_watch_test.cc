#include "worker/launcher/model/recovery_watch.h"

#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

using namespace std::chrono_literals;

TEST(RecoveryWatch, MeasuresFromTheFirstLossToTheFirstStep) {
  const Clock::Time start{1h};
  RecoveryWatch watch;
  watch.Lost(start + 2s, {"Silence", "w1", "n1", start, {1, 1}, 10});
  watch.Lost(start + 3s, {"RankKilled", "w2", "n2", start, {1, 1}, 10});
  watch.Progressed(start + 4s, {1, 1}, 11);  // progress in the old world
  EXPECT_FALSE(watch.last());

  watch.Progressed(start + 5s, {1, 3}, 12);

  ASSERT_TRUE(watch.last());
  EXPECT_EQ(watch.last()->cause, "Silence");
  EXPECT_EQ(watch.last()->pod, "w1");
  EXPECT_EQ(watch.last()->epoch, (control::Epoch{1, 3}));
  EXPECT_EQ(watch.last()->detected_millis, 2000);
  EXPECT_EQ(watch.last()->resumed_millis, 3000);
  EXPECT_EQ(watch.last()->steps_lost, 0);
}

TEST(RecoveryWatch, CountsTheStepsOfARollBack) {
  const Clock::Time start{1h};
  RecoveryWatch watch;
  watch.Lost(start, {"RankKilled", "w", "n", start, {1, 1}, 40});

  watch.Progressed(start, {1, 2}, 1);

  EXPECT_EQ(watch.last()->steps_lost, 40);
}

TEST(RecoveryWatch, ARestartedProgramHasARunTimeAndLosesNoSteps) {
  const Clock::Time start{1h};
  RecoveryWatch watch;
  RecoveryWatch::Loss loss{"PodGone", "w1", "n1", start + 60s, {1, 1}, 0};
  loss.started = start;
  watch.Lost(start + 61s, loss);
  EXPECT_TRUE(watch.IsOpen());

  watch.Progressed(start + 64s, {1, 2}, 0);

  EXPECT_FALSE(watch.IsOpen());
  EXPECT_TRUE(watch.last()->from_start);
  EXPECT_EQ(watch.last()->ran_millis, 61'000);
  EXPECT_EQ(watch.last()->detected_millis, 1000);
  EXPECT_EQ(watch.last()->resumed_millis, 3000);
  EXPECT_EQ(watch.last()->steps_lost, 0);
}

}  // namespace
}  // namespace ringmaster::launcher
