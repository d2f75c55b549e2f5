// Tests spec.runPolicy on a real API server: jobs that are suspended, past their deadline or
// managed by another controller, and the clean-up of jobs that have ended.

#include <chrono>

#include <gmock/gmock.h>

#include "common/base/clock.h"
#include "tests/integration/cluster_test.h"

namespace ringmaster::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class RunPolicyTest : public ClusterTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ClusterTest::SetUp());
    StartOperator();
  }

  json WithPolicy(const std::string& name, int replicas, const json& policy) {
    json manifest = JobManifest(ns(), name, replicas);
    manifest["spec"]["runPolicy"] = policy;
    return manifest;
  }
  void Change(const std::string& name, const json& policy) {
    const Response changed = admin().MergePatch(JobPath(name), {{"spec", {{"runPolicy", policy}}}});
    ASSERT_TRUE(changed.ok()) << changed.Text();
  }
  void Suspend(const std::string& name, bool suspend) {
    const Response changed = admin().MergePatch(JobPath(name), {{"spec", {{"suspend", suspend}}}});
    ASSERT_TRUE(changed.ok()) << changed.Text();
  }
  void WaitSuspended(const std::string& name) {
    WaitCondition(name, "Suspended", "True");
    WaitFor("no Pods", [&] { return Names("pods").empty(); });
  }
  // Returns whether the job is deleted or has a deletionTimestamp.
  bool IsDeleted(const std::string& name) {
    const Response job = admin().Get(JobPath(name));
    return job.status == 404 || !TextAt(job.body, "/metadata/deletionTimestamp").empty();
  }
};

TEST_F(RunPolicyTest, AJobCreatedSuspendedMakesNothingUntilItIsResumed) {
  StartKubelet();
  json manifest = JobManifest(ns(), "digits", 2);
  manifest["spec"]["suspend"] = true;
  CreateJob(manifest);
  WaitCondition("digits", "Suspended", "True", "Suspended");
  WaitFor("an event", [&] { return Events("Suspended").size() == 1; });
  EXPECT_THAT(Names("pods"), IsEmpty());
  EXPECT_THAT(Names("services"), IsEmpty());
  EXPECT_THAT(Names("secrets"), IsEmpty());
  const json job = Job("digits");
  EXPECT_EQ(TextAt(job, "/status/state"), "Suspended");
  EXPECT_EQ(TextAt(job, "/status/startTime"), "");
  EXPECT_EQ(TextAt(Condition("digits", "Running"), "/status"), "False");

  Suspend("digits", false);

  WaitCondition("digits", "Running", "True");
  EXPECT_EQ(TextAt(Condition("digits", "Suspended"), "/status"), "False");
  EXPECT_NE(TextAt(Job("digits"), "/status/startTime"), "");
  EXPECT_EQ(TextAt(Job("digits"), "/status/internal/launcherTerm"), "1");
}

TEST_F(RunPolicyTest, ASuspendedJobsRanksEndFirstAndItGoesOnUnderANewTerm) {
  RunJob("digits", 2);
  const auto launcher = kubelet().Launcher("digits-launcher-1");
  ASSERT_NE(launcher, nullptr);
  launcher->Report([](control::LauncherStatus& status) {
    status.checkpoint = control::CheckpointReport{.epoch = {1, 1}, .step = 500, .age_millis = 10};
  });
  launcher->SetDrains(false);
  Suspend("digits", true);
  WaitFor("the order to end", [&] {
    const auto order = launcher->LastOrder();
    return order && order->replicas == 0 && order->workers.empty();
  });
  WaitCondition("digits", "Suspended", "False", "Suspending");
  EXPECT_EQ(Names("pods").size(), 3u);
  for (const auto& [name, pod] : List("pods")) {
    EXPECT_EQ(TextAt(pod, "/metadata/deletionTimestamp"), "") << name;
  }

  launcher->SetDrains(true);

  WaitSuspended("digits");
  EXPECT_THAT(TextAt(Condition("digits", "Suspended"), "/message"),
              HasSubstr("the checkpoint of step 500"));
  EXPECT_EQ(TextAt(Job("digits"), "/status/workers/replicas"), "0");
  EXPECT_EQ(TextAt(Job("digits"), "/status/worldSize"), "0");
  WaitFor("an event", [&] { return Events("Suspended").size() == 1; });

  Suspend("digits", false);

  WaitCondition("digits", "Running", "True");
  // The old workers may still exist when the job resumes, so the new ones may have other names.
  EXPECT_THAT(Names("pods"), ElementsAre("digits-launcher-2", StartsWith("digits-worker-"),
                                         StartsWith("digits-worker-")));
  EXPECT_EQ(TextAt(Job("digits"), "/status/internal/launcherTerm"), "2");
  EXPECT_EQ(At(Job("digits"), "/status/failures"), json()) << "nothing failed";
  WaitFor("an event", [&] { return Events("Resumed").size() == 1; });
  EXPECT_EQ(Events("Suspended").size(), 1u);
}

TEST_F(RunPolicyTest, TheCheckpointThatIsAskedForIsWaitedForBeforeTheRanksEnd) {
  StartKubelet();
  json manifest = JobManifest(ns(), "digits", 1);
  manifest["spec"]["checkpoint"] = {{"volume", {{"emptyDir", json::object()}}},
                                    {"everySteps", 500}};
  CreateJob(manifest);
  WaitCondition("digits", "Running", "True");
  const auto launcher = kubelet().Launcher("digits-launcher-1");
  ASSERT_NE(launcher, nullptr);
  const auto train_to = [&](int64_t step) {
    launcher->Report([&](control::LauncherStatus& status) {
      status.progress.emplace();
      status.progress->step = step;
      status.progress->total_steps = 100'000;
    });
  };
  train_to(495);
  WaitFor("the step", [&] { return TextAt(Job("digits"), "/status/progress/step") == "495"; });

  Suspend("digits", true);

  WaitFor("the checkpoint to be waited for", [&] {
    return TextAt(Condition("digits", "Suspended"), "/message")
               .find("waiting for a checkpoint of step 495 or later") != std::string::npos;
  });
  EXPECT_EQ(launcher->LastOrder()->workers.size(), 1u);
  EXPECT_EQ(TextAt(Condition("digits", "Running"), "/status"), "True");

  train_to(503);
  launcher->Report([](control::LauncherStatus& status) {
    status.checkpoint = control::CheckpointReport{.epoch = {1, 1}, .step = 500, .age_millis = 10};
  });

  WaitSuspended("digits");
  EXPECT_EQ(launcher->LastOrder()->replicas, 0);
  EXPECT_THAT(TextAt(Condition("digits", "Suspended"), "/message"),
              HasSubstr("it will resume from the checkpoint of step 500"));
}

TEST_F(RunPolicyTest, ASuspendedJobsImageAndCommandCanChangeAndItGoesOnWithThem) {
  RunJob("digits", 1);
  const json changed{{"spec",
                      {{"image", "registry.example.com/other:2"},
                       {"command", {"ringmaster-train", "--workload=mnist"}},
                       {"suspend", false}}}};
  EXPECT_EQ(admin().MergePatch(JobPath("digits"), changed).status, 422);
  Suspend("digits", true);
  WaitSuspended("digits");

  ASSERT_TRUE(admin().MergePatch(JobPath("digits"), changed).ok());

  WaitCondition("digits", "Running", "True");
  const json worker = List("pods").rbegin()->second;
  EXPECT_EQ(TextAt(worker, "/metadata/labels/ringmaster.dev~1role"), "worker");
  EXPECT_EQ(TextAt(worker, "/spec/containers/0/image"), "registry.example.com/other:2");
  EXPECT_NE(TextAt(Condition("digits", "ChangePending"), "/status"), "True");
}

TEST_F(RunPolicyTest, ASuspensionGoesOnWhereAStoppedOperatorLeftIt) {
  RunJob("digits", 1);
  kubelet().Launcher("digits-launcher-1")->SetDrains(false);
  Suspend("digits", true);
  WaitCondition("digits", "Suspended", "False", "Suspending");
  ASSERT_EQ(op().Stop(), 0);
  kubelet().Launcher("digits-launcher-1")->SetDrains(true);
  EXPECT_EQ(Names("pods").size(), 2u);

  StartOperator();

  WaitSuspended("digits");
}

TEST_F(RunPolicyTest, ADeadlineEndsTheJobAndItsPods) {
  RunJob("digits", 2);
  const std::string started = TextAt(Job("digits"), "/status/startTime");
  ASSERT_NE(started, "");
  // Let the deadline pass while no operator runs. The next operator knows only startTime.
  ASSERT_EQ(op().Stop(), 0);
  WaitFor("a second to pass",
          [&] { return FormatTime(std::chrono::system_clock::now()) > started; });
  Change("digits", {{"activeDeadlineSeconds", 1}});

  StartOperator();

  WaitCondition("digits", "Failed", "True", "DeadlineExceeded");
  EXPECT_NE(TextAt(Job("digits"), "/status/completionTime"), "");
  WaitFor("no Pods", [&] { return Names("pods").empty(); });
  WaitFor("an event", [&] { return Events("DeadlineExceeded").size() == 1; });
}

// Tests a launcher that ends before the deadline while the operator's view of the Pods is stale.
TEST_F(RunPolicyTest, ADeadlineDoesNotOverruleAVerdictThatWasNotSeenYet) {
  RunJob("digits", 2);
  const std::string started = TextAt(Job("digits"), "/status/startTime");
  HoldBackPods();
  FinishJob("digits", Success(2));
  WaitFor("a second to pass",
          [&] { return FormatTime(std::chrono::system_clock::now()) > started; });
  Change("digits", {{"activeDeadlineSeconds", 1}});

  WaitFor("the delete of a launcher that has changed since",
          [&] { return RefusedDeletes("digits-launcher-1") >= 2; });
  proxy().SetPolicy(nullptr);

  WaitCondition("digits", "Succeeded", "True");
  EXPECT_TRUE(Events("DeadlineExceeded").empty());
}

TEST_F(RunPolicyTest, ADeadlineComesByItself) {
  StartKubelet();
  CreateJob(WithPolicy("digits", 1, {{"activeDeadlineSeconds", 5}}));
  WaitCondition("digits", "Failed", "True", "DeadlineExceeded");
}

TEST_F(RunPolicyTest, AStartThatTakesTooLongNamesWhatIsMissing) {
  CreateJob(WithPolicy("digits", 1, {{"startTimeoutSeconds", 600}}));
  WaitFor("the worker's Pod", [&] { return List("pods").contains("digits-worker-0"); });
  const Response said = admin().MergePatch(
      Path("pods", "digits-worker-0") + "/status",
      {{"status",
        {{"conditions",
          {{{"type", "PodScheduled"},
            {"status", "False"},
            {"reason", "Unschedulable"},
            {"message", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}}}}}}});
  ASSERT_TRUE(said.ok()) << said.Text();
  WaitCondition("digits", "WorkersReady", "False", "Unschedulable");

  Change("digits", {{"startTimeoutSeconds", 1}});

  WaitCondition("digits", "Failed", "True", "StartTimeout");
  EXPECT_THAT(
      TextAt(Condition("digits", "Failed"), "/message"),
      HasSubstr("digits-worker-0 cannot be scheduled: 0/3 nodes are available: 3 Insufficient "
                "nvidia.com/gpu; the Pod requests nvidia.com/gpu, and no node has any: ask the "
                "platform "));
  WaitFor("an event", [&] { return Events("StartTimeout").size() == 1; });
}

TEST_F(RunPolicyTest, AnEndedJobGoesWhenItsTimeToLiveIsOver) {
  StartKubelet();
  CreateJob(WithPolicy("kept", 1, {{"ttlSecondsAfterFailure", 1}}));
  CreateJob(WithPolicy("digits", 1, {{"ttlSecondsAfterSuccess", 1}}));
  for (const char* name : {"kept", "digits"}) {
    WaitCondition(name, "Running", "True");
    FinishJob(name, Success(1));
  }
  WaitFor("the job to go", [&] { return IsDeleted("digits"); });
  // With foreground deletion, the job exists until its dependents are gone.
  EXPECT_THAT(Job("digits").dump(), HasSubstr("foregroundDeletion"));
  WaitCondition("kept", "Succeeded", "True");
  EXPECT_FALSE(IsDeleted("kept"));
}

TEST_F(RunPolicyTest, CleanPodPolicyAllTakesTheLauncherToo) {
  StartKubelet();
  CreateJob(WithPolicy("all", 1, {{"cleanPodPolicy", "All"}}));
  CreateJob(WithPolicy("running", 1, {{"cleanPodPolicy", "Running"}}));
  for (const char* name : {"all", "running"}) {
    WaitCondition(name, "Running", "True");
    FinishJob(name, Success(1));
    WaitCondition(name, "Succeeded", "True");
  }
  WaitFor("what still runs to go",
          [&] { return Names("pods") == std::vector<std::string>{"running-launcher-1"}; });
  EXPECT_EQ(TextAt(Condition("all", "Succeeded"), "/status"), "True");
}

TEST_F(RunPolicyTest, AJobOfAnotherControllerIsLeftAlone) {
  StartKubelet();
  for (const auto& [name, manager] : {std::pair("theirs", "kueue.x-k8s.io/multikueue"),
                                      std::pair("ours", "ringmaster.dev/operator")}) {
    json manifest = JobManifest(ns(), name, 1);
    manifest["spec"]["managedBy"] = manager;
    CreateJob(manifest);
  }
  WaitCondition("ours", "Running", "True");
  EXPECT_EQ(At(Job("theirs"), "/status"), (json{{"observedGeneration", -1}}))
      << "the CRD's default";
  EXPECT_THAT(Names("pods"), ElementsAre("ours-launcher-1", "ours-worker-0"));
  for (const ProxiedRequest& request : proxy().Requests()) {
    EXPECT_THAT(request.target, ::testing::Not(HasSubstr("theirs"))) << request.method;
  }
}

// With cgroup v2, the kernel kills all processes of the container, so that only the Pod's status
// from the kubelet contains the reason.
TEST_F(RunPolicyTest, AWorkerThatRunsOutOfMemoryWhereverItStartsEndsTheJob) {
  StartKubelet();
  json manifest = WithPolicy("digits", 1, {{"restart", {{"crashLimit", 3}}}});
  manifest["spec"]["worker"]["template"] = {
      {"spec",
       {{"containers",
         {{{"name", "worker"}, {"resources", {{"limits", {{"memory", "64Mi"}}}}}}}}}}};
  CreateJob(manifest);
  WaitCondition("digits", "Running", "True");

  WaitFor("the end", [&] {
    for (const auto& [name, pod] : List("pods")) {
      const bool worker = name.find("-worker-") != std::string::npos;
      if (!worker || TextAt(pod, "/status/phase") != "Running") continue;
      kubelet().Terminate(name, 137, "", "OOMKilled");
    }
    return TextAt(Condition("digits", "Failed"), "/status") == "True";
  });

  const json job = Job("digits");
  EXPECT_EQ(TextAt(Condition("digits", "Failed"), "/reason"), "OOMKilled");
  EXPECT_THAT(TextAt(Condition("digits", "Failed"), "/message"),
              AllOf(HasSubstr("ran out of memory"), HasSubstr("the container is 64Mi"),
                    HasSubstr("3 times in a row"), HasSubstr("crashLimit")));
  EXPECT_EQ(At(job, "/status/crashes/count"), json(3));
  EXPECT_EQ(TextAt(job, "/status/failures/0/reason"), "OOMKilled");
  EXPECT_THAT(TextAt(job, "/status/failures/0/lastLines/0"),
              HasSubstr("raise spec.worker.resources.limits.memory"));
  WaitFor("an event", [&] { return !Events("OOMKilled").empty(); });
  WaitFor("no worker", [&] {
    for (const auto& [name, pod] : List("pods")) {
      if (TextAt(pod, "/status/phase") == "Running") return false;
    }
    return true;
  });
}

TEST_F(RunPolicyTest, AnEvictedWorkerIsNoCrash) {
  StartKubelet();
  CreateJob(WithPolicy("digits", 1, {{"restart", {{"crashLimit", 1}}}}));
  WaitCondition("digits", "Running", "True");
  const auto launcher = kubelet().Launcher("digits-launcher-1");
  ASSERT_NE(launcher, nullptr);
  launcher->Report([](control::LauncherStatus& status) {
    status.progress.emplace();
    status.progress->step = 5;
  });
  WaitFor("its first step",
          [&] { return !TextAt(Job("digits"), "/status/firstStepTime").empty(); });

  // An eviction by the kubelet does not count as a crash.
  WaitFor("its worker's Pod to run",
          [&] { return TextAt(List("pods")["digits-worker-0"], "/status/phase") == "Running"; });
  ASSERT_TRUE(admin()
                  .MergePatch(Path("pods", "digits-worker-0") + "/status",
                              {{"status", {{"phase", "Failed"}, {"reason", "Evicted"}}}})
                  .ok());
  WaitFor("another worker",
          [&] { return Names("pods").size() == 2 && !List("pods").contains("digits-worker-0"); });
  WaitFor("no crash",
          [&] { return TextAt(Job("digits"), "/status/failures/0/reason") == "Evicted"; });

  EXPECT_EQ(At(Job("digits"), "/status/crashes"), json());
  EXPECT_NE(TextAt(Condition("digits", "Failed"), "/status"), "True");
}

}  // namespace
}  // namespace ringmaster::testing
