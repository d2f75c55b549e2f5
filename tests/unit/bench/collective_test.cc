#include "worker/bench/collectives/collective.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.h"
#include "worker/bench/collectives/measurement.h"
#include "worker/bench/collectives/report.h"
#include "worker/bench/collectives/size_text.h"
#include "worker/bench/harness/figure.h"

namespace ringmaster::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SizeText, TakesTheSizesOfNcclTests) {
  EXPECT_EQ(*ParseSize("8"), 8);
  EXPECT_EQ(*ParseSize("64K"), 64 << 10);
  EXPECT_EQ(*ParseSize("1m"), 1 << 20);
  EXPECT_EQ(*ParseSize("2GB"), int64_t{2} << 30);
  for (const char* wrong : {"", "K", "8T", "-1", "1.5M", "8 K", "99999999999G", "1KK"}) {
    const Result<int64_t> parsed = ParseSize(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_THAT(parsed.error().message, HasSubstr(std::string("'") + wrong + "' is no size"));
  }
}

TEST(SizeText, SweepsByAFactorOrByAStep) {
  EXPECT_THAT(Sweep(8, 100, 1, 2), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(Sweep(10, 30, 10, 1), ElementsAre(10, 20, 30));
  EXPECT_THAT(Sweep(5, 5, 1, 1), ElementsAre(5));
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_THAT(Sweep(16 * kGiB, 32 * kGiB, 1, kGiB), ElementsAre(16 * kGiB)) << "the next is 2^64";
}

TEST(Collective, HasTheBusFactorsOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllGather, 2), 0.5);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllToAll, 2), 0.5);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kBroadcast, 8), 1);
}

TEST(Collective, TheSizeIsThatOfTheLargerBuffer) {
  const Counts scatter = CountsOf(Collective::kReduceScatter, 100, 4, 3);
  EXPECT_EQ(scatter.send, 24U);
  EXPECT_EQ(scatter.receive, 8U);
  EXPECT_EQ(scatter.unit, 8U);
  EXPECT_EQ(CountsOf(Collective::kAllGather, 100, 4, 3).receive, 24U);
  EXPECT_EQ(CountsOf(Collective::kAllReduce, 100, 8, 3).most(), 12U);
  EXPECT_EQ(CountsOf(Collective::kAllToAll, 8, 4, 3).most(), 0U) << "less than one for each rank";
}

TEST(Collective, ACallCountsWhatItsOperationCounts) {
  std::vector<float> memory(12);
  Call call{.send = std::span(memory), .receive = std::span(memory)};
  EXPECT_EQ(call.count(3), 12U);
  call.collective = Collective::kAllToAll;
  EXPECT_EQ(call.count(3), 4U);
}

// Each operation takes 10 us, to meet takes a second.
class SlowBarriers final : public Backend {
 public:
  explicit SlowBarriers(FakeClock& clock) : clock_(clock) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  bool Supports(trainer::ElementType, trainer::ReduceOp) const override { return true; }
  Result<void> Run(const Call&) override {
    clock_.Advance(std::chrono::microseconds(10));
    return {};
  }
  Result<void> Barrier() override {
    clock_.Advance(std::chrono::seconds(1));
    return {};
  }

 private:
  FakeClock& clock_;
};

TEST(Measurement, TimesTheOperationAndNotTheBarrierBeforeIt) {
  FakeClock clock;
  SlowBarriers backend(clock);
  const Sweepings sweep{.sizes = {1024},
                        .types = {trainer::ElementType::kFloat32},
                        .ops = {trainer::ReduceOp::kSum},
                        .iterations = 4,
                        .check = false};

  const auto rows = Measure(backend, sweep, clock, [](const Row&) {});

  ASSERT_TRUE(rows.ok() && rows->size() == 1);
  EXPECT_NEAR(rows->front().out_of_place.micros, 10, 1e-6);
  EXPECT_NEAR(rows->front().in_place.micros, 10, 1e-6);
}

TEST(Report, AddsUpWrongElementsAndAveragesBusBandwidth) {
  const std::vector<Row> rows{{.out_of_place = {.bus = 1, .wrong = 2}, .in_place = {.bus = 3}},
                              {.out_of_place = {.bus = 5}, .in_place = {.bus = 7, .wrong = 1}}};

  const Totals totals = TotalsOf(rows);

  EXPECT_EQ(totals.wrong, 3);
  EXPECT_DOUBLE_EQ(totals.average_bus, 4);
  EXPECT_THAT(Trailer(totals), HasSubstr("Out of bounds values : 3 FAILED"));
}

TEST(Report, WritesTheColumnsOfNcclTests) {
  const Sweepings sweep{.sizes = {8}};
  const Row row{.bytes = 8, .count = 2, .out_of_place = {.wrong = 0}, .in_place = {}};

  EXPECT_THAT(Header(sweep, "gloo", 2), HasSubstr("#wrong"));
  EXPECT_THAT(LineOf(row, sweep), HasSubstr("float     sum     -1"));
  EXPECT_THAT(LineOf(row, sweep), HasSubstr("N/A"));
  const auto json = JsonOf({row}, sweep, "gloo", 2);
  EXPECT_EQ(json["rows"][0]["out_of_place"]["wrong"], 0);
  EXPECT_TRUE(json["rows"][0]["in_place"]["wrong"].is_null());
}

TEST(Median, IsTheMiddleOne) { EXPECT_EQ(Median({5, 1, 3}), 3); }

}  // namespace
}  // namespace ringmaster::bench
