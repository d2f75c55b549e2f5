#include "worker/launcher/model/rank_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

using testing::HasSubstr;

TEST(RankMetrics, EachHasItsHelpItsTypeAndNumbersAsTheyAre) {
  JobTimes times;
  times.job = "team/digits";
  times.epoch = 3;
  times.ranks.push_back({.step = 12'345'678});
  times.ranks.push_back({.step = 7});

  const std::string text = MetricsText(times);

  EXPECT_THAT(text, HasSubstr("# HELP ringmaster_epoch Epoch number of the current world, "
                              "within its launcher's term\n# TYPE ringmaster_epoch gauge\n"
                              "ringmaster_epoch{job=\"team/digits\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("rank=\"0\"} 12345678\nringmaster_rank_step{"));
}

TEST(RankMetrics, NoNameEndsItsLabel) {
  JobTimes times;
  times.ranks.push_back({.pod = "x\"} 1\ny\\"});

  EXPECT_THAT(MetricsText(times), HasSubstr(R"(worker="x\"} 1\ny\\",node)"));
}

}  // namespace
}  // namespace ringmaster::launcher
