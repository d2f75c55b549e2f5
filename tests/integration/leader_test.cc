// Two operators: one leads, the other takes over when the first is killed or stops.

#include <algorithm>

#include "tests/integration/cluster_test.h"

namespace ringmaster::testing {
namespace {

class LeaderTest : public ClusterTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ClusterTest::SetUp());
    StartOperator(kLease);
    ASSERT_TRUE(op().WaitLeading());
    standby_ = AnotherOperator("standby", kLease);
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

  // Whether somebody gave the Lease up, rather than let it expire.
  bool LeaseWasReleased() {
    const auto requests = proxy().Requests();  // Writes() leaves Leases out
    return std::any_of(requests.begin(), requests.end(), [](const ProxiedRequest& request) {
      return request.IsWrite() && request.IsLease() && request.status == 200 &&
             TextAt(json::parse(request.body), "/spec/holderIdentity").empty();
    });
  }

  // A killed leader's is waited for; a machine that stands still for seconds must not end it.
  static inline const std::vector<std::string> kLease = {
      "--lease-duration=15s", "--renew-deadline=12s", "--retry-period=1s"};
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
  op().Kill();
  ASSERT_TRUE(standby_->WaitLeading()) << standby_->Log();
  EXPECT_FALSE(LeaseWasReleased());
  WaitFor("orders with a higher stamp",
          [&] { return launcher->LastOrder()->stamp.leader_transitions > transitions; });
  FinishJob("digits", Success(1));
  WaitCondition("digits", "Succeeded", "True");
}

TEST_F(LeaderTest, AnOrderlyStopHandsOverAtOnce) {
  ASSERT_EQ(op().Stop(), 0) << op().Log();
  EXPECT_TRUE(LeaseWasReleased());
  ASSERT_TRUE(standby_->WaitLeading()) << standby_->Log();
  RunJob("digits", 1);
}

}  // namespace
}  // namespace ringmaster::testing
