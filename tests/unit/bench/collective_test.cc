#include "worker/bench/collectives/collective.h"

#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "worker/bench/collectives/backend.h"
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
    EXPECT_THAT(parsed.error().message,
                HasSubstr(std::string("'") + wrong + "' is not a valid size"));
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
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kScatter, 4), 0.75);
  for (const Collective collective :
       {Collective::kBroadcast, Collective::kReduce, Collective::kSendRecv}) {
    EXPECT_DOUBLE_EQ(BusFactor(collective, 8), 1) << NameOf(collective);
  }
}

TEST(Collective, TheSizeIsThatOfTheLargerBuffer) {
  const Counts scatter = CountsOf(Collective::kReduceScatter, 100, 4, 3);
  EXPECT_EQ(scatter.send, 24U);
  EXPECT_EQ(scatter.receive, 8U);
  EXPECT_EQ(scatter.unit, 8U);
  EXPECT_EQ(CountsOf(Collective::kAllGather, 100, 4, 3).receive, 24U);
  EXPECT_EQ(CountsOf(Collective::kAllReduce, 100, 8, 3).most(), 12U);
  EXPECT_EQ(CountsOf(Collective::kAllToAll, 8, 4, 3).most(), 0U) << "less than one for each rank";
  EXPECT_EQ(CountsOf(Collective::kGather, 1000, 1, 3).unit, 320U) << "333, but for the alignment";
  EXPECT_EQ(CountsOf(Collective::kScatter, 1000, 1, 3).send, 960U);
}

TEST(Collective, ACallCountsWhatItsOperationCounts) {
  std::vector<float> memory(12);
  Call call{.send = std::span(memory), .receive = std::span(memory)};
  EXPECT_EQ(call.count(3), 12U);
  call.collective = Collective::kAllToAll;
  EXPECT_EQ(call.count(3), 4U);
}

TEST(Collective, OperationsWithoutReductionAreMessagesBetweenRanks) {
  std::vector<float> memory(12);
  const auto messages_of = [&](Collective collective, std::size_t send, std::size_t receive,
                               int rank) {
    return MessagesOf({.collective = collective,
                       .root = 1,
                       .send = std::span(memory).first(send),
                       .receive = std::span(memory).first(receive)},
                      rank, 3);
  };

  EXPECT_THAT(messages_of(Collective::kAllToAll, 12, 12, 0).to, ElementsAre(16, 16, 16));
  EXPECT_THAT(messages_of(Collective::kAllToAll, 12, 12, 0).from, ElementsAre(16, 16, 16));
  EXPECT_THAT(messages_of(Collective::kGather, 4, 12, 0).to, ElementsAre(0, 16, 0));
  EXPECT_THAT(messages_of(Collective::kGather, 4, 12, 0).from, ElementsAre(0, 0, 0));
  EXPECT_THAT(messages_of(Collective::kGather, 4, 12, 1).from, ElementsAre(16, 16, 16));
  EXPECT_THAT(messages_of(Collective::kScatter, 12, 4, 0).to, ElementsAre(0, 0, 0));
  EXPECT_THAT(messages_of(Collective::kScatter, 12, 4, 0).from, ElementsAre(0, 16, 0));
  EXPECT_THAT(messages_of(Collective::kScatter, 12, 4, 1).to, ElementsAre(16, 16, 16));
  EXPECT_THAT(messages_of(Collective::kSendRecv, 12, 12, 2).to, ElementsAre(48, 0, 0));
  EXPECT_THAT(messages_of(Collective::kSendRecv, 12, 12, 2).from, ElementsAre(0, 48, 0));
}

// A job's rank requests its slot's GPU, the only GPU that the agent makes visible to the rank.
TEST(GpuRequest, OfAJobsRankIsTheGpuOfItsSlot) {
  EXPECT_EQ(GpuRequestOf(3).local_rank, 3) << "one of this machine's";
  ::setenv(control::kEnvGpuUuid, "GPU-1", 1);
  EXPECT_EQ(GpuRequestOf(3).pinned, "");

  ::setenv(control::kEnvAgentSocket, "/agent", 1);
  ::setenv(control::kEnvSlot, "1", 1);
  const trainer::GpuRequest request = GpuRequestOf(3);

  EXPECT_EQ(request.local_rank, 1);
  EXPECT_EQ(request.pinned, "GPU-1");
  for (const char* set : {control::kEnvGpuUuid, control::kEnvAgentSocket, control::kEnvSlot}) {
    ::unsetenv(set);
  }
}

TEST(ChooseBackend, IsNcclIfThisProcessHasAGpu) {
  const trainer::GpuFacts none{.built_in = true};
  const trainer::GpuFacts found{.built_in = true, .gpus = {{.name = "one"}}};

  EXPECT_EQ(ChooseBackend(std::nullopt, found), "nccl");
  EXPECT_EQ(ChooseBackend(std::nullopt, none), "gloo");
  EXPECT_EQ(ChooseBackend(2, none), "nccl") << "which says what is wrong with the Pod's GPUs";
  EXPECT_EQ(ChooseBackend(0, found), "gloo") << "another Pod's";
  EXPECT_EQ(ChooseBackend(2, {.built_in = false}), "gloo");
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
