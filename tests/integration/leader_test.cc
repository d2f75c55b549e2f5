// Two operators: one leads, the other takes over when the first is killed or stops.

#include <chrono>

#include "tests/integration/cluster_test.h"

namespace ringmaster::testing {
namespace {

using std::chrono::steady_clock;

class LeaderTest : public ClusterTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ClusterTest::SetUp());
    StartOperator();
    ASSERT_TRUE(op().WaitLeading());
    standby_ = AnotherOperator("standby");
    ASSERT_NE(standby_, nullptr);
    ASSERT_TRUE(standby_->WaitReady()) << standby_->Log();
  }

  void TearDown() override {
    if (standby_ != nullptr) {
      EXPECT_EQ(standby_->Stop(), 0) << standby_->Log();
    }
    standby_.reset();
    ClusterTest::TearDown();
  }

  std::unique_ptr<OperatorProcess> standby_;
};

TEST_F(LeaderTest, OneLeadsAndTheStandbyOnlyWatches) {
  RunJob("digits", 2);
  EXPECT_FALSE(standby_->WaitLeading(std::chrono::milliseconds(0)));
  std::map<std::string, int> posts;
  for (const ProxiedRequest& write : proxy().Writes()) {
    if (write.method == "POST" && write.Path().ends_with("/" + ns() + "/pods")) {
      ++posts[TextAt(json::parse(write.body), "/metadata/name")];
    }
  }
  for (const auto& [name, count] : posts) EXPECT_EQ(count, 1) << name;
}

TEST_F(LeaderTest, TheStandbyTakesOverFromAKilledLeader) {
  RunJob("digits", 1);
  const auto launcher = kubelet().Launcher("digits-launcher-1");
  ASSERT_NE(launcher, nullptr);
  const int64_t transitions = launcher->LastOrder()->stamp.leader_transitions;
  const auto killed = steady_clock::now();
  op().Kill();
  ASSERT_TRUE(standby_->WaitLeading(std::chrono::seconds(20))) << standby_->Log();
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - killed);
  RecordProperty("takeover_millis", static_cast<int>(took.count()));
  EXPECT_LT(took, std::chrono::seconds(10));
  WaitFor("orders with a higher stamp",
          [&] { return launcher->LastOrder()->stamp.leader_transitions > transitions; });
  FinishJob("digits", Success(1));
  WaitCondition("digits", "Succeeded", "True");
}

TEST_F(LeaderTest, AnOrderlyStopHandsOverAtOnce) {
  const auto stopped = steady_clock::now();
  ASSERT_EQ(op().Stop(), 0) << op().Log();
  ASSERT_TRUE(standby_->WaitLeading(std::chrono::seconds(20))) << standby_->Log();
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - stopped);
  RecordProperty("takeover_millis", static_cast<int>(took.count()));
  EXPECT_LT(took, std::chrono::seconds(4)) << "less than the Lease would take to expire";
  RunJob("digits", 1);
}

}  // namespace
}  // namespace ringmaster::testing
