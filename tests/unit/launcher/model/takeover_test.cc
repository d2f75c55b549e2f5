#include "worker/launcher/model/takeover.h"

#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

control::Member Reported(const std::string& pod, const std::string& start = "1") {
  return {pod, pod, "node", "10.0.0.1", 0, start, 7};
}

TEST(TakeoverReports, TakesTheHighestEpochReported) {
  Takeover takeover;
  takeover.Report("a", {{1, 4}, {Reported("a"), Reported("b")}, {"1"}});
  takeover.Report("c", {{1, 3}, {Reported("a"), Reported("b"), Reported("c")}, {"1"}});

  EXPECT_EQ(takeover.newest(), (control::Epoch{1, 4}));
  EXPECT_EQ(takeover.epoch(), (control::Epoch{1, 4}));
  EXPECT_EQ(takeover.Runs(Reported("a")), true);
  EXPECT_EQ(takeover.Runs(Reported("a", "2")), false);
  EXPECT_EQ(takeover.Runs(Reported("b")), std::nullopt);
  EXPECT_FALSE(takeover.StartedEverywhere());

  takeover.Report("b", {{1, 4}, {Reported("a"), Reported("b")}, {"1"}});
  EXPECT_TRUE(takeover.StartedEverywhere());
}

}  // namespace
}  // namespace ringmaster::launcher
