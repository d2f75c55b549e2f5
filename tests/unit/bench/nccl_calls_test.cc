#include "worker/bench/collectives/nccl_calls.h"

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/comm/nccl/fake_nccl.h"

namespace ringmaster::bench {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class NcclCallsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(communicator.Barrier(Soon())->Wait().ok()); }

  static trainer::Deadline Soon() { return std::chrono::steady_clock::now() + trainer::kSoon; }
  Call CallOf(Collective collective) {
    return {.collective = collective, .send = std::span(send), .receive = std::span(receive)};
  }
  // Runs the operations and returns the calls of NCCL.
  std::vector<std::string> Run(const std::vector<Call>& together) {
    const auto before = static_cast<std::ptrdiff_t>(rank.nccl.calls().size());
    const Result<void> done = StartOnNccl(communicator, together, Soon())->Wait();
    EXPECT_TRUE(done.ok()) << done.error().message;
    const std::vector<std::string> calls = rank.nccl.calls();
    return {calls.begin() + before, calls.end()};
  }

  trainer::FakeRank rank;
  trainer::AbandonedConnects abandoned_connects;
  trainer::NcclCommunicator communicator{rank.runtime, trainer::World{}, Soon(),
                                         abandoned_connects};
  std::vector<float> send = std::vector<float>(4, 41);
  std::vector<float> receive = std::vector<float>(4);
};

TEST_F(NcclCallsTest, AnOperationOutOfPlaceLeavesItsInput) {
  EXPECT_THAT(Run({CallOf(Collective::kAllReduce)}), ElementsAre("all_reduce"));

  EXPECT_THAT(receive, Each(42));
  EXPECT_THAT(send, Each(41));
}

TEST_F(NcclCallsTest, EachOperationIsNcclsOwnCallWhereItHasOne) {
  EXPECT_THAT(Run({CallOf(Collective::kReduceScatter)}), ElementsAre("reduce_scatter"));
  EXPECT_THAT(Run({CallOf(Collective::kBroadcast)}), ElementsAre("broadcast 0"));
  EXPECT_THAT(Run({CallOf(Collective::kReduce)}), ElementsAre("reduce 0"));
  for (const Collective collective :
       {Collective::kAllToAll, Collective::kGather, Collective::kScatter, Collective::kSendRecv}) {
    EXPECT_THAT(Run({CallOf(collective)}),
                ElementsAre("group_start", "send 16 to 0", "receive 16 from 0", "group_end"))
        << NameOf(collective);
  }
}

TEST_F(NcclCallsTest, SeveralCallsFormAGroup) {
  const Call call = CallOf(Collective::kAllReduce);
  EXPECT_THAT(Run({call, call}),
              ElementsAre("group_start", "all_reduce", "all_reduce", "group_end"));
}

TEST_F(NcclCallsTest, AGroupWithACallThatFailsIsEndedAndFails) {
  rank.nccl.launch_result = trainer::NcclResult::kInvalidArgument;
  const std::vector<Call> calls(2, CallOf(Collective::kAllReduce));

  EXPECT_FALSE(StartOnNccl(communicator, calls, Soon())->Wait().ok());

  EXPECT_TRUE(rank.nccl.Called("group_end"));
}

}  // namespace
}  // namespace ringmaster::bench
