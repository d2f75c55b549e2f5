#include "operator/runtime/freshness.h"

#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.h"

namespace ringmaster::runtime {
namespace {

class FreshnessTest : public testing::Test {
 protected:
  FreshnessTest() {
    gate_.Watch(kube::kPods, [this] { return pods_seen_; });
    gate_.Watch(kube::kServices, [this] { return services_seen_; });
  }

  FakeClock clock_;
  std::string pods_seen_ = "100";
  std::string services_seen_ = "100";
  FreshnessGate gate_{clock_, std::chrono::minutes(5)};
};

TEST_F(FreshnessTest, HoldsAKeyUntilItsWritesAreSeen) {
  gate_.Wrote("job", kube::kPods, "105");
  gate_.Wrote("job", kube::kPods, "103");  // an earlier write whose answer arrived later

  EXPECT_FALSE(gate_.Fresh("job"));
  EXPECT_TRUE(gate_.Fresh("other"));
  pods_seen_ = "104";
  EXPECT_FALSE(gate_.Fresh("job"));
  pods_seen_ = "105";
  EXPECT_TRUE(gate_.Fresh("job"));
}

TEST_F(FreshnessTest, JudgesEachResourceByItsOwnVersions) {
  gate_.Wrote("job", kube::kPods, "105");
  gate_.Wrote("job", kube::kServices, "120");
  pods_seen_ = "130";

  EXPECT_FALSE(gate_.Fresh("job"));
  services_seen_ = "120";
  EXPECT_TRUE(gate_.Fresh("job"));
}

TEST_F(FreshnessTest, IgnoresWhatCannotBeComparedOrIsNotWatched) {
  gate_.Wrote("job", kube::kPods, "");
  gate_.Wrote("job", kube::kPods, "opaque");
  gate_.Wrote("job", kube::kSecrets, "105");

  EXPECT_TRUE(gate_.Fresh("job"));
}

TEST_F(FreshnessTest, TellsOfAWriteThatIsNotSeenForLong) {
  int told = 0;
  gate_.Watch(
      kube::kPods, [this] { return pods_seen_; }, [&] { ++told; });
  gate_.Wrote("job", kube::kPods, "105");
  gate_.Wrote("other", kube::kPods, "106");

  clock_.Advance(std::chrono::milliseconds(4900));
  EXPECT_FALSE(gate_.Fresh("job"));
  EXPECT_EQ(told, 0);
  clock_.Advance(std::chrono::milliseconds(100));
  EXPECT_FALSE(gate_.Fresh("job"));
  EXPECT_FALSE(gate_.Fresh("other"));
  EXPECT_EQ(told, 1) << "once for all keys";
  clock_.Advance(std::chrono::seconds(15));
  EXPECT_FALSE(gate_.Fresh("job"));
  EXPECT_EQ(told, 2);
  pods_seen_ = "106";
  clock_.Advance(std::chrono::seconds(15));
  EXPECT_TRUE(gate_.Fresh("job"));
  EXPECT_EQ(told, 2);
}

TEST_F(FreshnessTest, DoesNotHoldAKeyForEver) {
  gate_.Wrote("job", kube::kPods, "105");

  clock_.Advance(std::chrono::minutes(5));
  EXPECT_FALSE(gate_.Fresh("job"));
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_TRUE(gate_.Fresh("job"));
}

TEST_F(FreshnessTest, ForgetsAKey) {
  gate_.Wrote("job", kube::kPods, "105");

  gate_.Forget("job");

  EXPECT_TRUE(gate_.Fresh("job"));
}

}  // namespace
}  // namespace ringmaster::runtime
