// Tests a job from apply to its end as its user sees it, on a real API server.

#include <algorithm>
#include <set>

#include <gmock/gmock.h>

#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "tests/integration/cluster_test.h"

namespace ringmaster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

class LifecycleTest : public ClusterTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ClusterTest::SetUp());
    StartOperator();
  }
};

std::vector<std::string> MountedItems(const json& pod) {
  std::vector<std::string> items;
  for (const json& volume : At(pod, "/spec/volumes")) {
    for (const json& item : At(volume, "/secret/items")) items.push_back(TextAt(item, "/key"));
    for (const json& source : At(volume, "/projected/sources")) {
      for (const json& item : At(source, "/secret/items")) items.push_back(TextAt(item, "/key"));
    }
  }
  std::sort(items.begin(), items.end());
  return items;
}

TEST_F(LifecycleTest, MakesEveryObjectOnceAndOwnsIt) {
  StartKubelet();
  CreateJob("digits", 3);
  WaitCondition("digits", "Running", "True");
  EXPECT_THAT(Names("pods"), UnorderedElementsAre("digits-launcher-1", "digits-worker-0",
                                                  "digits-worker-1", "digits-worker-2"));
  EXPECT_THAT(Names("services"), UnorderedElementsAre("digits", "digits-launcher"));
  ASSERT_EQ(Names("secrets").size(), 1u);
  EXPECT_TRUE(Names("secrets")[0].starts_with("digits-ssh-"));
  const std::string uid = JobUid("digits");
  for (const char* plural : {"pods", "services", "secrets"}) {
    for (const auto& [name, object] : List(plural)) {
      EXPECT_EQ(TextAt(object, "/metadata/ownerReferences/0/uid"), uid) << name;
      EXPECT_EQ(TextAt(object, "/metadata/ownerReferences/0/controller"), "true") << name;
      EXPECT_EQ(At(object, "/metadata/labels").value("ringmaster.dev/job-name", ""), "digits")
          << name;
      EXPECT_EQ(At(object, "/metadata/labels").value("ringmaster.dev/managed-by", ""), "ringmaster")
          << name;
    }
  }
  EXPECT_EQ(TextAt(List("secrets").begin()->second, "/immutable"), "true");
  EXPECT_EQ(TextAt(List("services")["digits"], "/spec/clusterIP"), "None");
  EXPECT_EQ(TextAt(List("services")["digits-launcher"], "/spec/publishNotReadyAddresses"), "true");
}

TEST_F(LifecycleTest, NoPodHoldsApiCredentialsAndNoWorkerThePrivateKeys) {
  RunJob("digits", 2);
  for (const auto& [name, pod] : List("pods")) {
    EXPECT_EQ(TextAt(pod, "/spec/automountServiceAccountToken"), "false") << name;
    for (const json& volume : At(pod, "/spec/volumes")) {
      for (const json& source : At(volume, "/projected/sources")) {
        EXPECT_FALSE(source.contains("serviceAccountToken")) << name;
      }
    }
    EXPECT_EQ(TextAt(pod, "/spec/restartPolicy"), "Never") << name;
    EXPECT_FALSE(MountedItems(pod).empty()) << name;
  }
  const std::vector<std::string> of_worker = MountedItems(List("pods")["digits-worker-0"]);
  EXPECT_THAT(of_worker, ::testing::Not(::testing::Contains(control::kItemSshUserKey)));
  EXPECT_THAT(of_worker, ::testing::Not(::testing::Contains(control::kItemTlsKey)));
  EXPECT_THAT(of_worker, ::testing::Not(::testing::Contains(control::kItemOperatorToken)));
  EXPECT_THAT(
      MountedItems(List("pods")["digits-launcher-1"]),
      IsSupersetOf({control::kItemSshUserKey, control::kItemTlsKey, control::kItemOperatorToken}));
}

TEST_F(LifecycleTest, TellsItsStateInStatusConditionsAndColumns) {
  RunJob("digits", 2);
  json job = Job("digits");
  EXPECT_EQ(TextAt(job, "/status/state"), "Running");
  EXPECT_EQ(TextAt(job, "/status/workers/desired"), "2");
  EXPECT_EQ(TextAt(job, "/status/workers/ready"), "2");
  EXPECT_EQ(TextAt(job, "/status/worldSize"), "2");
  EXPECT_EQ(TextAt(job, "/status/internal/launcherTerm"), "1");
  EXPECT_EQ(TextAt(job, "/status/observedGeneration"), TextAt(job, "/metadata/generation"));
  EXPECT_EQ(TextAt(Condition("digits", "Created"), "/status"), "True");
  EXPECT_EQ(TextAt(Condition("digits", "WorkersReady"), "/status"), "True");
  for (const json& condition : At(job, "/status/conditions")) {
    EXPECT_NE(TextAt(condition, "/reason"), "") << condition;
    EXPECT_NE(TextAt(condition, "/lastTransitionTime"), "") << condition;
  }
  const std::string columns = plane().Kubectl({"get", "tj", "-n", ns()}).text;
  for (const char* column :
       {"NAME", "STATE", "REASON", "READY", "DESIRED", "WORLD", "STEP", "PERCENT", "AGE"}) {
    EXPECT_THAT(columns, HasSubstr(column));
  }
  EXPECT_THAT(columns, ::testing::ContainsRegex("digits +Running +Training +2 +2 +2"));
  EXPECT_THAT(plane().Kubectl({"get", "all", "-n", ns()}).text,
              HasSubstr("trainingjob.ringmaster.dev/digits"));
}

TEST_F(LifecycleTest, SucceedsByTheLaunchersVerdict) {
  RunJob("digits", 2);
  FinishJob("digits", Success(2));
  WaitCondition("digits", "Succeeded", "True");
  WaitFor("an event", [&] { return Events("Succeeded").size() == 1; });
  const json job = Job("digits");
  EXPECT_EQ(TextAt(job, "/status/state"), "Succeeded");
  EXPECT_EQ(TextAt(job, "/status/progress/percent"), "100");
  EXPECT_EQ(TextAt(Condition("digits", "Running"), "/status"), "False");
  EXPECT_NE(TextAt(Condition("digits", "Failed"), "/status"), "True");
  EXPECT_EQ(TextAt(job, "/status/internal/launcherTerm"), "1");
}

TEST_F(LifecycleTest, FailsWithWorkerNodeRankAndLastLines) {
  RunJob("digits", 2);
  control::Verdict verdict = Success(2);
  verdict.succeeded = false;
  verdict.reason = control::kReasonRankFailed;
  verdict.message = "rank 1 of worker digits-worker-1 ended with exit code 3";
  control::RankExit exit;
  exit.rank = 1;
  exit.pod = "digits-worker-1";
  exit.node = "node-of-digits-worker-1";
  exit.exit_code = 3;
  exit.last_lines = {"before it ended", "cannot open the data"};
  verdict.first_failure = exit;
  FinishJob("digits", verdict);
  WaitCondition("digits", "Failed", "True", control::kReasonRankFailed);
  EXPECT_THAT(TextAt(Condition("digits", "Failed"), "/message"), HasSubstr("digits-worker-1"));
  const json failure = At(Job("digits"), "/status/failures/0");
  EXPECT_EQ(TextAt(failure, "/worker"), "digits-worker-1");
  EXPECT_EQ(TextAt(failure, "/node"), "node-of-digits-worker-1");
  EXPECT_EQ(TextAt(failure, "/rank"), "1");
  EXPECT_EQ(TextAt(failure, "/exitCode"), "3");
  EXPECT_THAT(failure.at("lastLines").get<std::vector<std::string>>(),
              ElementsAre("before it ended", "cannot open the data"));
  WaitFor("a warning", [&] {
    const auto events = Events(control::kReasonRankFailed);
    return events.size() == 1 && TextAt(events[0], "/type") == "Warning" &&
           TextAt(events[0], "/note").find("rank 1") != std::string::npos;
  });
}

TEST_F(LifecycleTest, ReplacesADeletedWorkerAndGivesTheLauncherTheNewOne) {
  RunJob("digits", 2);
  const std::string before = TextAt(List("pods")["digits-worker-1"], "/metadata/uid");
  ASSERT_TRUE(admin().Delete(Path("pods", "digits-worker-1")).ok());
  WaitFor("a replacement in the world", [&] {
    const auto pods = List("pods");
    const auto launcher = kubelet().Launcher("digits-launcher-1");
    if (launcher == nullptr || launcher->Status().epoch.number < 2) return false;
    std::set<std::string> uids;
    const control::Order order = *launcher->LastOrder();
    for (const auto& worker : order.workers) uids.insert(worker.pod_uid);
    return uids.size() == 2 && !uids.contains(before);
  });
  // The fake launcher also reports Pods that do not run yet, so the old Pod may still exist.
  WaitFor("the old one to go", [&] { return Names("pods").size() == 3; });
  WaitFor("an event that names the worker", [&] {
    for (const json& event : Events("WorkerReplaced")) {
      const std::string note = TextAt(event, "/note");
      if (note.find("digits-worker-1 on node node-of-digits-worker-1") != std::string::npos) {
        return true;
      }
    }
    return false;
  });
  WaitFor("the new epoch in the status",
          [&] { return TextAt(Job("digits"), "/status/epoch") == "2"; });
  EXPECT_EQ(TextAt(Job("digits"), "/status/internal/launcherTerm"), "1");
}

TEST_F(LifecycleTest, AReplacementNeverWaitsForATerminatingName) {
  RunJob("digits", 2);
  kubelet().SetCutOff(true);
  ASSERT_TRUE(admin().Delete(Path("pods", "digits-worker-0")).ok());
  WaitFor("worker 2 beside the terminating worker 0",
          [&] { return List("pods").contains("digits-worker-2"); });
  EXPECT_TRUE(List("pods").contains("digits-worker-0"));
  kubelet().SetCutOff(false);
  WaitFor("worker 0 gone", [&] { return !List("pods").contains("digits-worker-0"); });
  WaitFor("two workers reported",
          [&] { return TextAt(Job("digits"), "/status/workers/replicas") == "2"; });
  EXPECT_THAT(Names("pods"),
              UnorderedElementsAre("digits-launcher-1", "digits-worker-1", "digits-worker-2"));
}

TEST_F(LifecycleTest, ScalesThroughTheSubresource) {
  RunJob("digits", 2);
  const CommandOutput up =
      plane().Kubectl({"scale", "-n", ns(), "trainingjob/digits", "--replicas=4"});
  ASSERT_EQ(up.status, 0) << up.text;
  WaitFor("a world of 4", [&] { return TextAt(Job("digits"), "/status/worldSize") == "4"; });
  const json scale = admin().Get(JobPath("digits") + "/scale").body;
  EXPECT_EQ(TextAt(scale, "/status/replicas"), "4");
  const std::string selector = TextAt(scale, "/status/selector");
  EXPECT_NE(selector, "");
  EXPECT_EQ(plane().Kubectl({"get", "pods", "-n", ns(), "-l", selector, "-o", "name"}).text,
            "pod/digits-worker-0\npod/digits-worker-1\npod/digits-worker-2\npod/digits-worker-3\n");
  ASSERT_EQ(plane().Kubectl({"scale", "-n", ns(), "trainingjob/digits", "--replicas=1"}).status, 0);
  WaitFor("one worker", [&] {
    return Names("pods") == std::vector<std::string>{"digits-launcher-1", "digits-worker-0"} &&
           TextAt(Job("digits"), "/status/worldSize") == "1";
  });
}

TEST_F(LifecycleTest, ALauncherWithoutVerdictIsLostAndReplacedUnderTheNextTerm) {
  RunJob("digits", 1);
  ASSERT_TRUE(
      kubelet().Terminate("digits-launcher-1", 0, "").ok());  // code 0, but without a verdict
  WaitFor("term 2", [&] { return List("pods").contains("digits-launcher-2"); });
  WaitFor("a world under term 2", [&] {
    const auto launcher = kubelet().Launcher("digits-launcher-2");
    return launcher != nullptr && launcher->Status().phase == control::LauncherPhase::kRunning;
  });
  WaitCondition("digits", "Running", "True");
  EXPECT_EQ(TextAt(Job("digits"), "/status/internal/launcherTerm"), "2");
  EXPECT_NE(TextAt(Condition("digits", "Succeeded"), "/status"), "True");
  EXPECT_EQ(TextAt(At(Job("digits"), "/status/failures/0"), "/reason"), "LauncherLost");
  FinishJob("digits", Success(1), 2);
  WaitCondition("digits", "Succeeded", "True");
}

TEST_F(LifecycleTest, DeletedJobLeavesNothing) {
  RunJob("digits", 2);
  ASSERT_TRUE(plane().StartControllerManager("garbage-collector-controller").ok());
  ASSERT_TRUE(admin().Delete(JobPath("digits")).ok());
  WaitFor(
      "an empty namespace",
      [&] {
        return Names("pods").empty() && Names("services").empty() && Names("secrets").empty() &&
               Names("configmaps").empty();
      },
      std::chrono::seconds(180));
  plane().StopControllerManager();
}

class DownTest : public ClusterTest {};

TEST_F(DownTest, AJobAppliedWhileTheOperatorIsDownStartsWhenItIsBack) {
  StartKubelet();
  CreateJob("digits", 1);
  EXPECT_TRUE(Names("pods").empty());
  StartOperator();
  WaitCondition("digits", "Running", "True");
}

TEST_F(DownTest, OfJobsThatWaitedTheOldestComesFirst) {
  CreateJob("z-older", 1);
  const std::string older = TextAt(Job("z-older"), "/metadata/creationTimestamp");
  std::string younger;
  WaitFor("a job that is a second younger", [&] {
    admin().Delete(JobPath("a-younger"));
    CreateJob("a-younger", 1);
    younger = TextAt(Job("a-younger"), "/metadata/creationTimestamp");
    return younger > older;
  });
  std::vector<std::string> flags = kPatientLease;
  flags.emplace_back("--workers=1");
  StartOperator(flags);

  WaitFor("launchers", [&] {
    const auto pods = List("pods");
    return pods.contains("a-younger-launcher-1") && pods.contains("z-older-launcher-1");
  });

  std::vector<std::string> launchers;
  for (const ProxiedRequest& write : proxy().Writes()) {
    if (write.method != "POST" || !write.Path().ends_with("/pods")) continue;
    const std::string name = TextAt(json::parse(write.body), "/metadata/name");
    if (name.ends_with("-launcher-1")) launchers.push_back(name);
  }
  EXPECT_THAT(launchers, ElementsAre("z-older-launcher-1", "a-younger-launcher-1"));
}

TEST_F(DownTest, AnEndWhileTheOperatorIsDownIsNotMissed) {
  StartOperator();
  RunJob("digits", 1);
  ASSERT_EQ(op().Stop(), 0);
  FinishJob("digits", Success(1));
  StartOperator();
  WaitCondition("digits", "Succeeded", "True");
  EXPECT_EQ(TextAt(Job("digits"), "/status/internal/launcherTerm"), "1");
  EXPECT_FALSE(List("pods").contains("digits-launcher-2"));
}

}  // namespace
}  // namespace ringmaster::testing
