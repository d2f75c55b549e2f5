// Tests workers, nodes and launchers that are lost or added while a job trains: what the operator
// does with their Pods, and which orders it sends to the launcher.

#include <algorithm>
#include <atomic>
#include <set>

#include <gmock/gmock.h>

#include "operator/api/names.h"
#include "tests/integration/cluster_test.h"

namespace ringmaster::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Strings = std::vector<std::string>;

class ElasticTest : public ClusterTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ClusterTest::SetUp());
    StartOperator();
  }
  void TearDown() override {
    proxy().SetPolicy(nullptr);
    for (const std::string& node : nodes_) admin().Delete("/api/v1/nodes/" + node);
    ClusterTest::TearDown();
  }

  std::shared_ptr<FakeLauncher> Launcher(int64_t term = 1) {
    return kubelet().Launcher("digits-launcher-" + std::to_string(term));
  }
  void Scale(int replicas) {
    const auto scaled =
        admin().MergePatch(JobPath("digits"), {{"spec", {{"worker", {{"replicas", replicas}}}}}});
    ASSERT_TRUE(scaled.ok()) << scaled.Text();
  }
  std::string Uid(const std::string& pod) { return TextAt(List("pods")[pod], "/metadata/uid"); }
  std::string Mark(const std::string& pod) {
    return At(List("pods")[pod], "/metadata")
        .value("annotations", json::object())
        .value(api::kAnnotationLeaving, "");
  }
  static std::set<std::string> Ordered(FakeLauncher& launcher) {
    std::set<std::string> pods;
    if (const auto order = launcher.LastOrder()) {
      for (const control::DesiredWorker& worker : order->workers) pods.insert(worker.pod);
    }
    return pods;
  }

  // Creates the Node object of a Pod. The fake kubelet does not create Nodes.
  void MakeNode(const std::string& pod) {
    const std::string name = "node-of-" + pod;
    const auto made = admin().Post("/api/v1/nodes", {{"metadata", {{"name", name}}}});
    ASSERT_TRUE(made.ok()) << made.Text();
    nodes_.push_back(name);
    SetNode(pod, "True");
  }
  void SetNode(const std::string& pod, const std::string& ready) {
    const json condition = {{"type", "Ready"},
                            {"status", ready},
                            {"reason", ready == "True" ? "KubeletReady" : "NodeStatusUnknown"}};
    const auto set = admin().MergePatch("/api/v1/nodes/node-of-" + pod + "/status",
                                        {{"status", {{"conditions", json::array({condition})}}}});
    ASSERT_TRUE(set.ok()) << set.Text();
  }

 private:
  Strings nodes_;
};

TEST_F(ElasticTest, AWorkerThatHasToGoIsMarkedThenDrainedThenDeleted) {
  RunJob("digits", 3);
  const auto launcher = Launcher();
  ASSERT_NE(launcher, nullptr);
  launcher->SetDrains(false);
  const std::string leaver = Uid("digits-worker-2");
  std::atomic<bool> drained{false};
  std::atomic<int> too_early{0};
  proxy().SetPolicy([&](const ProxiedRequest& request) {
    const bool deletes = request.method == "DELETE" && request.Path().ends_with("digits-worker-2");
    if (deletes && !drained) ++too_early;
    return Pass();
  });

  Scale(2);
  WaitFor("an order without worker 2", [&] {
    return Ordered(*launcher) == std::set<std::string>{"digits-worker-0", "digits-worker-1"};
  });
  EXPECT_EQ(Mark("digits-worker-2"), "ScalingDown");
  EXPECT_EQ(Mark("digits-worker-1"), "");
  WaitCondition("digits", "Resizing", "True", "ScalingDown");
  EXPECT_EQ(TextAt(List("pods")["digits-worker-2"], "/metadata/deletionTimestamp"), "");
  drained = true;
  launcher->SetDrains(true);
  WaitFor("worker 2 gone", [&] { return !List("pods").contains("digits-worker-2"); });
  WaitCondition("digits", "Resizing", "False", "Stable");

  EXPECT_EQ(too_early, 0);
  EXPECT_THAT(Names("pods"),
              UnorderedElementsAre("digits-launcher-1", "digits-worker-0", "digits-worker-1"));
  EXPECT_EQ(TextAt(Job("digits"), "/status/workers/members"), "2");
  EXPECT_TRUE(At(Job("digits"), "/status/failures").empty());
}

TEST_F(ElasticTest, GrowingAgainLeavesTheMarkedOneLeaving) {
  RunJob("digits", 3);
  const auto launcher = Launcher();
  ASSERT_NE(launcher, nullptr);
  launcher->SetDrains(false);
  Scale(2);
  WaitFor("the mark", [&] { return Mark("digits-worker-2") == "ScalingDown"; });

  Scale(3);
  WaitFor("a new one beside it", [&] { return List("pods").contains("digits-worker-3"); });
  launcher->SetDrains(true);

  WaitFor("the marked one gone", [&] { return !List("pods").contains("digits-worker-2"); });
  WaitFor("a world of the others", [&] {
    return Ordered(*launcher) ==
           std::set<std::string>{"digits-worker-0", "digits-worker-1", "digits-worker-3"};
  });
}

TEST_F(ElasticTest, APersonsMarkMovesAWorker) {
  RunJob("digits", 2);
  ASSERT_TRUE(admin()
                  .MergePatch(Path("pods", "digits-worker-0"),
                              {{"metadata", {{"annotations", {{api::kAnnotationLeaving, ""}}}}}})
                  .ok());
  WaitFor("another in its place", [&] {
    return Names("pods") == Strings{"digits-launcher-1", "digits-worker-1", "digits-worker-2"};
  });
}

TEST_F(ElasticTest, AWorkerThatTheLauncherLostIsReplacedUnderAnotherName) {
  RunJob("digits", 2);
  const auto launcher = Launcher();
  ASSERT_NE(launcher, nullptr);
  const std::string lost = Uid("digits-worker-1");
  launcher->Report([&](control::LauncherStatus& status) {
    for (control::WorkerReport& worker : status.workers) {
      if (worker.pod_uid == lost) worker.fenced = true;
    }
  });

  WaitFor("its replacement", [&] {
    return Names("pods") == Strings{"digits-launcher-1", "digits-worker-0", "digits-worker-2"};
  });
  const json failure = At(Job("digits"), "/status/failures/0");
  EXPECT_EQ(TextAt(failure, "/reason"), "WorkerLost");
  EXPECT_EQ(TextAt(failure, "/worker"), "digits-worker-1");
  WaitFor("an event", [&] { return Events("WorkerLost").size() == 1; });
}

TEST_F(ElasticTest, TheOrderNamesPodsThatAreCertainlyGone) {
  RunJob("digits", 2);
  const auto launcher = Launcher();
  ASSERT_NE(launcher, nullptr);
  launcher->SetObedient(false);
  const std::string gone = Uid("digits-worker-1");
  ASSERT_TRUE(admin().Delete(Path("pods", "digits-worker-1")).ok());

  WaitFor("the evidence", [&] {
    const auto order = launcher->LastOrder();
    return order && order->dead == Strings{gone};
  });
  launcher->SetObedient(true);
  launcher->SetDrains(true);
  WaitFor("the next world", [&] { return TextAt(Job("digits"), "/status/epoch") == "2"; });
  WaitFor("evidence that is no longer needed to go",
          [&] { return launcher->LastOrder()->dead.empty(); });
}

TEST_F(ElasticTest, ASilentLauncherIsReplacedUnderTheNextTermAndWorkersStay) {
  RunJob("witness", 1);  // its launcher's answers prove that the operator's network works
  RunJob("digits", 2);
  const Strings workers{Uid("digits-worker-0"), Uid("digits-worker-1")};
  Launcher()->Stop();

  WaitFor("the next launcher in charge", [&] {
    return Names("pods") == Strings{"digits-launcher-2", "digits-worker-0", "digits-worker-1",
                                    "witness-launcher-1", "witness-worker-0"};
  });
  WaitCondition("digits", "Running", "True");
  EXPECT_EQ((Strings{Uid("digits-worker-0"), Uid("digits-worker-1")}), workers);
  EXPECT_EQ(TextAt(Job("digits"), "/status/internal/launcherTerm"), "2");
  EXPECT_EQ(TextAt(At(Job("digits"), "/status/failures/0"), "/reason"), "LauncherLost");
}

// Tests a launcher that has ended and cannot answer, while the operator's view of Pods is stale.
TEST_F(ElasticTest, AVerdictThatWasNotSeenYetIsNotDeletedWithItsLauncher) {
  RunJob("witness", 1);
  RunJob("digits", 2);
  HoldBackPods();
  FinishJob("digits", Success(2));

  WaitFor("the delete of a launcher that has changed since",
          [&] { return RefusedDeletes("digits-launcher-1") >= 2; });
  EXPECT_LT(RefusedDeletes("digits-launcher-1"), 20) << "it is tried again with a back-off";
  proxy().SetPolicy(nullptr);

  WaitCondition("digits", "Succeeded", "True");
  EXPECT_EQ(TextAt(Job("digits"), "/status/internal/launcherTerm"), "1");
  EXPECT_FALSE(List("pods").contains("digits-launcher-2"));
}

TEST_F(ElasticTest, AWorkerOnASilentNodeIsReplacedOnlyWhenItIsNotHeard) {
  RunJob("digits", 3);
  for (const char* pod : {"digits-worker-0", "digits-worker-1", "digits-worker-2"}) {
    ASSERT_NO_FATAL_FAILURE(MakeNode(pod));
  }
  const auto launcher = Launcher();
  ASSERT_NE(launcher, nullptr);
  const std::string silent = Uid("digits-worker-1");
  // The launcher receives the heartbeats of worker 1, so the operator must keep this worker. The
  // loss of another worker shows that the operator has reconciled the job.
  SetNode("digits-worker-1", "Unknown");
  ASSERT_TRUE(admin().Delete(Path("pods", "digits-worker-2")).ok());
  WaitFor("the next world", [&] { return TextAt(Job("digits"), "/status/epoch") == "2"; });
  EXPECT_EQ(Uid("digits-worker-1"), silent);

  launcher->SetObedient(false);
  launcher->Report([&](control::LauncherStatus& status) {
    for (control::WorkerReport& worker : status.workers) {
      if (worker.pod_uid == silent) worker.ready = worker.member = false;
    }
  });
  WaitFor("its replacement", [&] {
    const Strings pods = Names("pods");
    return pods.size() == 4 && std::count(pods.begin(), pods.end(), "digits-worker-1") == 0;
  });
  EXPECT_EQ(TextAt(At(Job("digits"), "/status/failures/0"), "/reason"), "NodeNotReady");
}

TEST_F(ElasticTest, ManySilentNodesChangeNothingAndAreSaid) {
  RunJob("digits", 3);
  for (const char* pod : {"digits-worker-0", "digits-worker-1", "digits-worker-2"}) {
    ASSERT_NO_FATAL_FAILURE(MakeNode(pod));
  }
  const Strings before = Names("pods");
  SetNode("digits-worker-0", "Unknown");
  SetNode("digits-worker-1", "Unknown");
  WaitFor("an event", [&] { return Events("NodesUnreachable").size() == 1; });
  Launcher()->Report([](control::LauncherStatus& status) {
    for (control::WorkerReport& worker : status.workers) worker.ready = false;
  });

  WaitCondition("digits", "WorkersReady", "False", "NodesUnreachable");
  EXPECT_EQ(Names("pods"), before);
}

TEST_F(ElasticTest, TheLossOfANodeObjectIsTheLossOfItsWorker) {
  RunJob("digits", 2);
  ASSERT_NO_FATAL_FAILURE(MakeNode("digits-worker-1"));
  const auto launcher = Launcher();
  ASSERT_NE(launcher, nullptr);
  launcher->SetObedient(false);
  kubelet().SetCutOff(true);
  const std::string lost = Uid("digits-worker-1");
  // The operator can notice the Node's deletion only if it has seen the Node.
  SetNode("digits-worker-1", "Unknown");
  launcher->Report([](control::LauncherStatus& status) { ++status.world_size; });
  WaitFor("the job to be looked at",
          [&] { return TextAt(Job("digits"), "/status/worldSize") == "3"; });
  ASSERT_TRUE(admin().Delete("/api/v1/nodes/node-of-digits-worker-1").ok());

  WaitFor("its replacement", [&] { return List("pods").contains("digits-worker-2"); });
  WaitFor("the evidence", [&] {
    const auto order = launcher->LastOrder();
    return order && order->dead == Strings{lost};
  });
  kubelet().SetCutOff(false);
}

TEST_F(ElasticTest, RecoveriesPausesAndRankFailuresAreTold) {
  RunJob("digits", 2);
  const std::string worker = Uid("digits-worker-1");
  Launcher()->Report([&](control::LauncherStatus& status) {
    control::Recovery& recovery = status.last_recovery.emplace();
    recovery.epoch = {1, 2};
    recovery.cause = "RankKilled";
    recovery.pod = "digits-worker-1";
    recovery.detected_millis = 3;
    recovery.resumed_millis = 80;
    control::RankExit& exit = status.failures.emplace_back();
    exit.rank = 1;
    exit.pod_uid = worker;
    exit.pod = "digits-worker-1";
    exit.start = "s1";
    exit.signal = 9;
  });
  WaitFor("the recovery in the status", [&] {
    return TextAt(Job("digits"), "/status/lastRecovery/resumedMilliseconds") == "80";
  });
  EXPECT_EQ(TextAt(Job("digits"), "/status/lastRecovery/cause"), "RankKilled");
  EXPECT_EQ(TextAt(Job("digits"), "/status/failures/0/signal"), "9");
  WaitFor("an event", [&] { return Events("Recovered").size() == 1; });
  EXPECT_THAT(TextAt(Events("Recovered")[0], "/note"), HasSubstr("no step was lost"));

  Launcher()->Report([](control::LauncherStatus& status) {
    status.phase = control::LauncherPhase::kPaused;
    status.pause_reason = control::kPauseNoQuorum;
  });
  WaitCondition("digits", "Resizing", "True", "NoQuorum");
  EXPECT_EQ(TextAt(Job("digits"), "/status/state"), "Paused");
  EXPECT_EQ(At(Job("digits"), "/status/failures").size(), 1u);
}

}  // namespace
}  // namespace ringmaster::testing
