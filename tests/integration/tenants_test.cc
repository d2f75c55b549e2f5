// Tests that a tenant or another installation cannot disturb the operator for others: launchers
// that send arbitrary data, jobs of the maximum size, and operators that disagree about a job.

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

#include "tests/builders/hostile_launcher.h"
#include "tests/integration/cluster_test.h"
#include "tests/paths.h"

namespace ringmaster::testing {
namespace {

using ::testing::HasSubstr;

class TenantsTest : public ClusterTest {
 protected:
  bool HasEnded(const std::string& name) {
    return TextAt(Condition(name, "Succeeded"), "/status") == "True" ||
           TextAt(Condition(name, "Failed"), "/status") == "True";
  }
};

TEST_F(TenantsTest, AnythingThatALauncherSaysGivesAStatusThatTheApiServerTakes) {
  StartOperator();
  RunJob("digits", 2);
  const auto launcher = kubelet().Launcher("digits-launcher-1");
  ASSERT_NE(launcher, nullptr);
  launcher->SetObedient(false);
  HostileLauncher hostile(7, 3);
  for (int n = 0; n < 20; ++n) {
    control::LauncherStatus answer = hostile.Answer();
    while (control::EncodeLauncherStatus(answer).size() > control::MaxStatusBytes(2)) {
      answer = hostile.Answer();
    }
    answer.epoch = {.term = 1, .number = 1000 + n};
    launcher->Report([&](control::LauncherStatus& status) {
      answer.last_order = status.last_order;
      status = answer;
    });
    WaitFor("the status of answer " + std::to_string(n),
            [&] { return At(Job("digits"), "/status/epoch") == json(1000 + n); });
    if (HasFatalFailure()) return;
  }

  std::string verdict = hostile.Verdict();
  while (verdict.find("\"succeeded\":false") == std::string::npos) verdict = hostile.Verdict();
  const Response ended = kubelet().Terminate("digits-launcher-1", 1, verdict);
  ASSERT_TRUE(ended.ok()) << ended.Text();
  WaitFor("its end", [&] { return HasEnded("digits"); });
}

TEST_F(TenantsTest, EachStartEndAndRefusalIsALineInTheLog) {
  StartOperator();
  json refused = JobManifest(ns(), "refused", 1);
  refused["spec"]["worker"]["template"]["spec"]["hostPID"] = true;
  CreateJob(refused);
  RunJob("digits", 1);
  FinishJob("digits", Success(1));
  WaitCondition("digits", "Succeeded", "True");
  WaitCondition("refused", "Stalled", "True", "InvalidSpec");

  for (const std::string& line : {"Started a job job=" + ns() + "/digits workers=1 ranks=1",
                                  "Ended a job job=" + ns() + "/digits result=Succeeded",
                                  "Rejected a job job=" + ns() + "/refused reason=InvalidSpec"}) {
    WaitFor(line, [&] { return op().LogHas(line); });
  }
}

// Two installations for the same namespaces. One installation rejects jobs that the other accepts.
class InstallationsTest : public TenantsTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ClusterTest::SetUp());
    StartKubelet();
    LaunchOperator({"--no-leader-elect", "--lease-name=strict"});
    LaunchPermissive("permissive");
    ASSERT_TRUE(op().WaitReady());
    ASSERT_TRUE(permissive_ != nullptr && permissive_->WaitReady());
  }

  // `process`: the name of the process, which differs from those of earlier processes.
  void LaunchPermissive(const std::string& process) {
    permissive_ =
        AnotherOperator(process, {"--no-leader-elect", "--lease-name=permissive",
                                  R"(--presets={"a":{"namespaces":[")" + ns() +
                                      R"("],"default":true,"allows":{"hostNetwork":true}}})"});
  }

  // Creates the Role and RoleBinding that the chart creates for a release of this name.
  void GrantLease(const std::string& lease) {
    const std::string roles =
        std::string("/apis/rbac.authorization.k8s.io/v1/namespaces/") + kOperatorNamespace + "/";
    const json metadata = {{"name", lease}};
    admin().Send("POST", roles + "roles",
                 json{{"metadata", metadata},
                      {"rules",
                       {{{"apiGroups", {"coordination.k8s.io"}},
                         {"resources", {"leases"}},
                         {"resourceNames", {lease}},
                         {"verbs", {"get", "update"}}}}}}
                     .dump());
    admin().Send(
        "POST", roles + "rolebindings",
        json{{"metadata", metadata},
             {"roleRef",
              {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "Role"}, {"name", lease}}},
             {"subjects",
              {{{"kind", "ServiceAccount"},
                {"namespace", kOperatorNamespace},
                {"name", kOperatorAccount}}}}}
            .dump());
  }

  static std::string Installation(const char* name) {
    return std::string(kOperatorNamespace) + "/" + name;
  }

  std::unique_ptr<OperatorProcess> permissive_;
};

TEST_F(InstallationsTest, AJobThatOneRefusesAndTheOtherAcceptsRuns) {
  constexpr int kJobs = 8;
  for (int i = 0; i < kJobs; ++i) {
    json manifest = JobManifest(ns(), "digits-" + std::to_string(i), 1);
    manifest["spec"]["network"] = {{"hostNetwork", true}};
    CreateJob(manifest);
  }
  for (int i = 0; i < kJobs; ++i) {
    const std::string name = "digits-" + std::to_string(i);
    WaitCondition(name, "Running", "True");
    WaitFor("the owner of " + name, [&] {
      return TextAt(Job(name), "/status/installation") == Installation("permissive");
    });
    EXPECT_EQ(TextAt(Condition(name, "Failed"), "/status"), "") << name;
  }
}

TEST_F(InstallationsTest, AJobThatBothRefuseIsHeldUpByTheOneThatTookIt) {
  json manifest = JobManifest(ns(), "refused", 1);
  manifest["spec"]["worker"]["template"]["spec"]["hostPID"] = true;
  CreateJob(manifest);
  WaitCondition("refused", "Stalled", "True", "InvalidSpec");

  const std::string owner = TextAt(Job("refused"), "/status/installation");
  WaitFor("its line in a log",
          [&] { return op().LogHas("Rejected a job") || permissive_->LogHas("Rejected a job"); });
  EXPECT_TRUE(owner == Installation("strict") || owner == Installation("permissive")) << owner;
  EXPECT_TRUE(Names("pods").empty());
  EXPECT_EQ(op().LogHas("Rejected a job"), owner == Installation("strict"));
  EXPECT_EQ(permissive_->LogHas("Rejected a job"), owner == Installation("permissive"));
}

TEST_F(InstallationsTest, AnUninstalledInstallationSaysThatNobodyRunsItsJobsAndAnotherAdoptsThem) {
  const std::string shown =
      "/apis/ringmaster.dev/v1alpha1/namespaces/" + ns() + "/localtrainingprofiles/a";
  WaitFor("what people see of its profile", [&] { return admin().Get(shown).ok(); });
  op().Kill();
  json manifest = JobManifest(ns(), "digits", 1);
  CreateJob(manifest);
  WaitCondition("digits", "Running", "True");
  ASSERT_EQ(permissive_->Stop(), 0);

  GrantLease("permissive");
  const auto releaser = AnotherOperator("releaser", {"--release-jobs", "--lease-name=permissive"});
  ASSERT_NE(releaser, nullptr);
  EXPECT_EQ(releaser->process().Wait(std::chrono::seconds(120)), 0) << releaser->Log();

  EXPECT_TRUE(releaser->LogHas("Released the jobs")) << releaser->Log();
  EXPECT_EQ(admin().Get(shown).status, 404);
  WaitCondition("digits", "Managed", "False", "Uninstalled");
  WaitCondition("digits", "Running", "True");

  // The other installation ignores the job until a user names that installation in the job.
  // That installation then needs a profile of the same name to create more Pods for the job.
  LaunchOperator({"--no-leader-elect", "--lease-name=strict",
                  R"(--presets={"a":{"namespaces":[")" + ns() + R"("]}})"});
  ASSERT_TRUE(op().WaitReady());
  WaitCondition("digits", "Managed", "False");
  ASSERT_TRUE(
      admin()
          .MergePatch(
              JobPath("digits"),
              {{"metadata",
                {{"annotations", {{"ringmaster.dev/installation", Installation("strict")}}}}}})
          .ok());
  WaitCondition("digits", "Managed", "True", "Adopted");
  WaitFor("its owner",
          [&] { return TextAt(Job("digits"), "/status/installation") == Installation("strict"); });
  WaitFor("its Service to name the owner", [&] {
    return TextAt(List("services").at("digits-launcher"),
                  "/metadata/annotations/ringmaster.dev~1installation") == Installation("strict");
  });
  ASSERT_TRUE(
      admin().MergePatch(JobPath("digits"), {{"spec", {{"worker", {{"replicas", 2}}}}}}).ok());
  WaitFor("its second worker", [&] { return List("pods").contains("digits-worker-1"); });
}

// Launchers refuse orders of leaders that were elected before the one whose order they have.
TEST_F(InstallationsTest, AnInstallationWhoseLeaderIsOlderCanTakeAJobOver) {
  RunJob("other", 1);  // its writes raise the term of the process that starts next
  ASSERT_EQ(permissive_->Stop(), 0);
  LaunchPermissive("newer");
  ASSERT_TRUE(permissive_ != nullptr && permissive_->WaitReady());
  json manifest = JobManifest(ns(), "digits", 1);
  manifest["spec"]["network"] = {{"hostNetwork", true}};  // refused by the one that started first
  CreateJob(manifest);
  WaitCondition("digits", "Running", "True");
  ASSERT_EQ(TextAt(Job("digits"), "/status/installation"), Installation("permissive"));
  const auto launcher = kubelet().Launcher("digits-launcher-1");
  ASSERT_NE(launcher, nullptr);

  for (const char* next : {"strict", "permissive", "strict"}) {  // the same processes each time
    const int64_t term = launcher->LastOrder()->stamp.leader_term;
    ASSERT_TRUE(
        admin()
            .MergePatch(
                JobPath("digits"),
                {{"metadata",
                  {{"annotations", {{"ringmaster.dev/installation", Installation(next)}}}}}})
            .ok());

    WaitFor(std::string("an order of its new owner, ") + next,
            [&] { return launcher->LastOrder()->stamp.leader_term > term; });
  }
}

TEST_F(TenantsTest, JobsAreReleasedOnlyOnceNoOperatorOfTheirInstallationRuns) {
  StartOperator();
  RunJob("digits", 1);
  const auto releaser = AnotherOperator("releaser", {"--release-jobs"});
  ASSERT_NE(releaser, nullptr);
  ASSERT_TRUE(
      admin().MergePatch(JobPath("digits"), {{"spec", {{"worker", {{"replicas", 2}}}}}}).ok());
  WaitFor("its second worker", [&] { return List("pods").contains("digits-worker-1"); });
  EXPECT_TRUE(releaser->process().Running());
  EXPECT_EQ(TextAt(Condition("digits", "Managed"), "/status"), "");

  ASSERT_EQ(op().Stop(), 0);

  EXPECT_EQ(releaser->process().Wait(std::chrono::seconds(120)), 0) << releaser->Log();
  WaitCondition("digits", "Managed", "False", "Uninstalled");
}

// Returns the memory of a process in MiB, from /proc: the current amount ("VmRSS:") or the maximum
// so far ("VmHWM:").
int64_t ResidentMiB(int pid, const std::string& what) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(what)) return std::stoll(line.substr(what.size())) / 1024;
  }
  return -1;
}

// Returns the operator's `limits.memory` in the chart, in MiB.
int64_t MemoryLimitMiB() {
  std::ifstream install(FromBuild(RINGMASTER_SOURCE_DIR "/deploy/install.yaml"));
  std::stringstream text;
  text << install.rdbuf();
  const std::string all = text.str();
  const std::size_t limit = all.find("memory:", all.find("limits:", all.find("kind: Deployment")));
  return std::stoll(all.substr(limit + 7));
}

#ifdef __SANITIZE_ADDRESS__
constexpr int64_t kCostOfSanitizer = 3;  // the sanitizer adds guards to each allocation
#else
constexpr int64_t kCostOfSanitizer = 1;
#endif

// An operator that kept the texts of 300 such jobs would exceed its memory limit. With 75 jobs,
// the test detects an operator that keeps too much of each job. A list of 75 jobs exceeds the
// longest list that the client accepts.
TEST_F(TenantsTest, JobsAsLargeAsTheApiServerTakesThemStopNobodyElsesAndAreNotKept) {
  constexpr int kJobs = 75;
  constexpr int64_t kMostKeptMiB = kJobs / 2;  // half a MiB per job, whose text has 1.4 MiB
  const std::string jobs = "/apis/ringmaster.dev/v1alpha1/namespaces/" + ns() + "/trainingjobs";
  const std::string any_name = "any-name";
  const auto manifest_with = [&](const json& part) {
    json huge = JobManifest(ns(), any_name, 1);
    huge["spec"]["worker"]["template"]["metadata"]["huge"] = part;
    return huge.dump();
  };
  const auto create = [&](const std::string& name, std::string manifest) {
    manifest.replace(manifest.find(any_name), any_name.size(), name);
    const Response created = admin().SendForTable("POST", jobs, manifest);
    ASSERT_EQ(created.status, 201) << created.Text().substr(0, 500);
  };
  const std::string with_text = manifest_with(std::string(1'400'000, 'x'));
  // Parsed JSON of many small values takes much more memory than its text.
  json tree = json::array();
  for (int i = 0; i < 280'000; ++i) tree.push_back(json::array({i % 10}));
  const std::string with_tree = manifest_with(tree);
  // Turn off the sanitizer's quarantine: freed memory in it would be counted as the operator's.
  const char* const given = std::getenv("ASAN_OPTIONS");
  const std::string options = std::string(given == nullptr ? "" : given) +
                              ":quarantine_size_mb=0:thread_local_quarantine_size_kb=0"
                              ":allocator_release_to_os_interval_ms=500";
  ASSERT_EQ(::setenv("ASAN_OPTIONS", options.c_str(), 1), 0);
  StartOperator();
  RunJob("digits", 1);
  const int64_t before = ResidentMiB(op().process().pid(), "VmRSS:");
  ASSERT_GT(before, 0);
  ASSERT_EQ(op().Stop(), 0);

  // Create half of the jobs before the operator starts, and half while it watches.
  for (int i = 0; i < kJobs; ++i) {
    if (i == kJobs / 2) StartOperator();
    create("huge-" + std::to_string(i), i % 25 == 0 ? with_tree : with_text);
    if (HasFatalFailure()) return;
  }
  RunJob("others", 1);
  for (const int job : {0, kJobs / 2, kJobs - 1}) {
    const std::string name = "huge-" + std::to_string(job);
    // First poll the job's table row, which is short because the row does not contain the spec.
    WaitFor("the row of " + name, [&] {
      const Response row = admin().SendForTable("GET", JobPath(name));
      return row.Text().find("\"InvalidSpec\"") != std::string::npos;
    });
    WaitCondition(name, "Stalled", "True", "InvalidSpec");
  }

  EXPECT_THAT(TextAt(Condition("huge-0", "Stalled"), "/message"), HasSubstr("256 KiB"));
  const int pid = op().process().pid();
  WaitFor("what they took to be given back",
          [&] { return ResidentMiB(pid, "VmRSS:") < before + kCostOfSanitizer * kMostKeptMiB; });
  RecordProperty("resident_mib_before", static_cast<int>(before));
  RecordProperty("resident_mib", static_cast<int>(ResidentMiB(pid, "VmRSS:")));
  EXPECT_LT(ResidentMiB(pid, "VmHWM:"), kCostOfSanitizer * MemoryLimitMiB());
  // Restore the variable for other tests.
  given == nullptr ? ::unsetenv("ASAN_OPTIONS") : ::setenv("ASAN_OPTIONS", given, 1);
}

}  // namespace
}  // namespace ringmaster::testing
