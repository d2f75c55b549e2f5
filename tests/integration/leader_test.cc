// Tests how operators share a Lease: one leads, another takes over when the first is killed or
// stops, and one that lost the Lease competes for it again.

#include <algorithm>
#include <string_view>

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

  // Returns whether an operator released the Lease explicitly.
  bool LeaseWasReleased() {
    const auto requests = proxy().Requests();  // Writes() omits Leases
    return std::any_of(requests.begin(), requests.end(), [](const ProxiedRequest& request) {
      return request.IsWrite() && request.IsLease() && request.status == 200 &&
             TextAt(json::parse(request.body), "/spec/holderIdentity").empty();
    });
  }

  // A Lease must expire soon, because a test waits for that, but not while the machine stalls.
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
  const int64_t term = launcher->LastOrder()->stamp.leader_term;
  op().Kill();
  ASSERT_TRUE(standby_->WaitLeading()) << standby_->Log();
  EXPECT_FALSE(LeaseWasReleased());
  WaitFor("orders with a higher stamp",
          [&] { return launcher->LastOrder()->stamp.leader_term > term; });
  FinishJob("digits", Success(1));
  WaitCondition("digits", "Succeeded", "True");
}

TEST_F(LeaderTest, AnOrderlyStopHandsOverAtOnce) {
  ASSERT_EQ(op().Stop(), 0) << op().Log();
  EXPECT_TRUE(LeaseWasReleased());
  ASSERT_TRUE(standby_->WaitLeading()) << standby_->Log();
  RunJob("digits", 1);
}

class LostLeaseTest : public ClusterTest {
 protected:
  // Returns how often the operator has become the leader.
  int Terms() {
    const std::string log = op().Log();
    int count = 0;
    for (auto at = log.find(kElected); at != std::string::npos; at = log.find(kElected, at + 1)) {
      ++count;
    }
    return count;
  }

  static constexpr std::chrono::milliseconds kNow{0};

 private:
  static constexpr std::string_view kElected = "Became the leader";
};

// A kubelet restarts a container that ends again and again only after minutes, so it must not end.
TEST_F(LostLeaseTest, TheProcessStaysAndLeadsAgain) {
  StartOperator({"--lease-duration=4s", "--renew-deadline=3s", "--retry-period=1s"});
  WaitFor("the first term", [&] { return Terms() > 0; });
  for (int i = 0; i < 2; ++i) {
    const int before = Terms();
    proxy().SetPolicy([](const ProxiedRequest& request) {
      return request.IsLease() ? Answer(503, "ServiceUnavailable") : Pass();
    });
    WaitFor("the operator to start again",
            [&] { return op().Probe("/readyz") == 200 && !op().WaitLeading(kNow); });
    proxy().SetPolicy(nullptr);
    WaitFor("another term", [&] { return Terms() > before; });
  }
  RunJob("digits", 1);
  FinishJob("digits", Success(1));
  WaitCondition("digits", "Succeeded", "True");
  EXPECT_TRUE(op().process().Running());
}

class InstallationTest : public ClusterTest {};

TEST_F(InstallationTest, TwoThatWatchTheSameNamespaceShareItsJobsAndNeverFightOverOne) {
  constexpr int kJobs = 10;
  StartKubelet();
  LaunchOperator({"--no-leader-elect", "--lease-name=first"});
  const auto second = AnotherOperator("second", {"--no-leader-elect", "--lease-name=second"});
  ASSERT_TRUE(op().WaitReady());
  ASSERT_TRUE(second != nullptr && second->WaitReady());
  for (int i = 0; i < kJobs; ++i) CreateJob("digits-" + std::to_string(i), 2);
  std::map<std::string, std::string> owners;
  for (int i = 0; i < kJobs; ++i) {
    const std::string name = "digits-" + std::to_string(i);
    WaitCondition(name, "Running", "True");
    WaitFor("its owner", [&] { return !TextAt(Job(name), "/status/installation").empty(); });
    owners[name] = TextAt(Job(name), "/status/installation");
    EXPECT_EQ(TextAt(List("services")[name + "-launcher"],
                     "/metadata/annotations/ringmaster.dev~1installation"),
              owners[name]);
  }

  // When one installation is down, the other still manages only the jobs assigned to it.
  op().Kill();
  for (const auto& [name, owner] : owners) {
    ASSERT_TRUE(
        admin().MergePatch(JobPath(name), {{"spec", {{"worker", {{"replicas", 3}}}}}}).ok());
  }
  for (const auto& [name, owner] : owners) {
    if (owner != std::string(kOperatorNamespace) + "/second") continue;
    WaitFor("the third worker of " + name,
            [&, job = name] { return List("pods").contains(job + "-worker-2"); });
  }
  for (const auto& [name, owner] : owners) {
    EXPECT_EQ(TextAt(Job(name), "/status/installation"), owner);
    EXPECT_EQ(TextAt(Condition(name, "Failed"), "/status"), "");
    if (owner == std::string(kOperatorNamespace) + "/first") {
      EXPECT_FALSE(List("pods").contains(name + "-worker-2")) << name;
    }
  }
}

TEST_F(InstallationTest, AnExcludedNamespaceIsLeftAlone) {
  StartOperator({"--no-leader-elect", "--exclude-namespaces=kube-system," + ns()});
  CreateJob("digits", 1);
  // The second operator does not exclude the namespace, so it takes the job.
  const auto second = AnotherOperator("second", {"--no-leader-elect", "--lease-name=second"});
  ASSERT_TRUE(second != nullptr && second->WaitReady());
  WaitFor("both Pods", [&] { return Names("pods").size() == 2; });
  WaitFor("its owner in the status", [&] {
    return TextAt(Job("digits"), "/status/installation") ==
           std::string(kOperatorNamespace) + "/second";
  });
}

}  // namespace
}  // namespace ringmaster::testing
