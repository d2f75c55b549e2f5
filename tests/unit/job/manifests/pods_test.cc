#include "operator/job/manifests/pods.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "common/json/json.h"
#include "operator/job/admission/pod_policy.h"
#include "operator/job/admission/template_policy.h"
#include "operator/job/manifests/injection.h"
#include "operator/kube/json_access.h"
#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using ringmaster::testing::JobBuilder;

const Credentials& Keys() {
  static const Credentials keys = *DeriveCredentials({.id = "s1", .bytes = std::string(32, 'x')},
                                                     "digits", ringmaster::testing::kJobUid);
  return keys;
}

// Returns the rules of a namespace whose profile allows everything that a profile can allow.
const JobRules& AllRules() {
  static const JobRules rules{.ns = "team-a",
                              .host_network = true,
                              .privileged = true,
                              .root = true,
                              .resource_claims = true,
                              .service_accounts = {"trainer"},
                              .capabilities = {"IPC_LOCK"},
                              .devices = {"rdma/hca"},
                              .host_paths = {"/data"}};
  return rules;
}
JudgedJob Judged(const api::TrainingJob& job) {
  const Judgement judgement = Judge(job, AllRules());
  for (const Violation& violation : judgement.violations) ADD_FAILURE() << violation.Text();
  return judgement.allowed.value();
}

json Worker(const api::TrainingJob& job, int index = 0, const Injection& injection = {}) {
  const json common = CommonWorkerPod({.judged = Judged(job),
                                       .credentials = Keys(),
                                       .revision = "r1",
                                       .tools_image = ToolsImageOf(injection, job.spec)},
                                      "10.96.0.7");
  return WorkerPod(common, job.name, index);
}
json Launcher(const api::TrainingJob& job, const Injection& injection = {}) {
  return LauncherPod({.judged = Judged(job),
                      .credentials = Keys(),
                      .revision = "r1",
                      .tools_image = ToolsImageOf(injection, job.spec)},
                     1);
}

const json& Managed(const json& pod) { return pod["spec"]["containers"][0]; }

std::string Variable(const json& container, const char* name) {
  std::string value;  // value of the last variable with this name, which takes effect
  for (const json& variable : kube::GetArray(container, {"env"})) {
    if (variable["name"] == name && variable.contains("value"))
      value = variable["value"].get<std::string>();
  }
  return value;
}

// Expects that the Pod meets the rules of the Pod Security Standard "restricted" that apply to
// defaults. template_policy_test tests the fields that a template must not set.
void ExpectRestricted(const json& pod) {
  const json& spec = pod["spec"];
  EXPECT_EQ(spec["securityContext"]["runAsNonRoot"], true);
  EXPECT_EQ(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
  EXPECT_EQ(spec["automountServiceAccountToken"], false);
  for (const char* list : {"containers", "initContainers"}) {
    for (const json& container : kube::GetArray(spec, {list})) {
      const json& context = container["securityContext"];
      EXPECT_EQ(context["allowPrivilegeEscalation"], false);
      EXPECT_EQ(context["capabilities"]["drop"], json::array({"ALL"}));
      EXPECT_FALSE(context.contains("privileged"));
    }
  }
  static const std::set<std::string> kVolumes{"name", "emptyDir", "secret", "configMap", "image"};
  for (const json& volume : spec["volumes"]) {
    for (const auto& [kind, value] : volume.items()) EXPECT_TRUE(kVolumes.contains(kind)) << kind;
  }
  for (const char* field : {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"}) {
    EXPECT_FALSE(spec.contains(field)) << field;
  }
}

TEST(Pods, DefaultsPassTheRestrictedProfile) {
  const api::TrainingJob job = JobBuilder().Build();

  ExpectRestricted(Worker(job));
  ExpectRestricted(Launcher(job));
}

TEST(Pods, TheNetworkFieldsReachTheWorkersContainerAlone) {
  api::TrainingJob job =
      JobBuilder()
          .WorkerTemplate(
              R"({"spec": {"containers": [{"name": "side"}, {"name": "worker", "resources": {"limits": {"cpu": 1}}}]}})")
          .Build();
  job.spec.host_network = job.spec.worker.privileged = job.spec.worker.ipc_lock = true;
  job.spec.worker.rdma = {{"rdma/hca", 2}};

  const json worker = Worker(job);

  EXPECT_EQ(worker["spec"]["hostNetwork"], true);
  EXPECT_EQ(worker["spec"]["dnsPolicy"], "ClusterFirstWithHostNet");
  const json& side = worker["spec"]["containers"][0];
  const json& managed = worker["spec"]["containers"][1];
  EXPECT_EQ(managed["securityContext"]["privileged"], true);
  // The API server rejects a privileged container with allowPrivilegeEscalation: false.
  EXPECT_FALSE(managed["securityContext"].contains("allowPrivilegeEscalation"));
  // Capabilities are effective only as root. sshd needs three of these to log in root.
  EXPECT_EQ(managed["securityContext"]["runAsUser"], 0);
  EXPECT_EQ(managed["securityContext"]["runAsNonRoot"], false);
  EXPECT_EQ(managed["securityContext"]["capabilities"],
            (json{{"drop", {"ALL"}}, {"add", {"SETGID", "SETUID", "SYS_CHROOT", "IPC_LOCK"}}}));
  EXPECT_EQ(managed["resources"]["limits"], (json{{"cpu", 1}, {"rdma/hca", 2}}));
  EXPECT_FALSE(side["securityContext"].contains("privileged"));
  EXPECT_FALSE(side.contains("resources"));
  ExpectRestricted(Launcher(job));
}

TEST(Pods, AContainerThatMayRunAsRootIsNotKeptFromIt) {
  const api::TrainingJob pod =
      JobBuilder().WorkerTemplate(R"({"spec": {"securityContext": {"runAsUser": 0}}})").Build();
  EXPECT_EQ(Worker(pod)["spec"]["securityContext"]["runAsNonRoot"], false);

  const api::TrainingJob container =
      JobBuilder()
          .WorkerTemplate(
              R"({"spec": {"containers": [{"name": "worker", "securityContext": {"runAsUser": 0}}, {"name": "side"}]}})")
          .Build();
  const json worker = Worker(container);
  EXPECT_EQ(worker["spec"]["securityContext"]["runAsNonRoot"], true);
  EXPECT_EQ(Managed(worker)["securityContext"]["runAsNonRoot"], false);
  EXPECT_FALSE(worker["spec"]["containers"][1]["securityContext"].contains("runAsNonRoot"));
  // Only the container with sshd gets these capabilities.
  EXPECT_EQ(Managed(worker)["securityContext"]["capabilities"]["add"],
            (json{"SETGID", "SETUID", "SYS_CHROOT"}));
  EXPECT_FALSE(worker["spec"]["containers"][1]["securityContext"]["capabilities"].contains("add"));
}

TEST(Pods, SidecarsAreRestrictedToo) {
  const api::TrainingJob job =
      JobBuilder()
          .WorkerTemplate(
              R"({"spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "worker"}, {"name": "side"}]}})")
          .Build();

  ExpectRestricted(Worker(job));
}

TEST(Pods, AnyUserIdCanReadTheCredentials) {
  const json pod = Worker(JobBuilder().Build());

  EXPECT_EQ(pod["spec"]["securityContext"]["fsGroup"], 1000);
  EXPECT_FALSE(pod["spec"]["securityContext"].contains("runAsUser"));
  for (const json& volume : pod["spec"]["volumes"]) {
    if (volume.contains("secret")) {
      EXPECT_EQ(volume["secret"]["defaultMode"], 0440);
    }
  }
}

std::set<std::string> MountedItems(const json& pod) {
  std::set<std::string> items;
  for (const json& volume : pod["spec"]["volumes"]) {
    if (!volume.contains("secret")) continue;
    EXPECT_EQ(volume["secret"]["secretName"], Keys().secret_name);
    for (const json& item : volume["secret"]["items"]) items.insert(item["key"].get<std::string>());
  }
  return items;
}

TEST(Pods, EachRoleMountsItsOwnItemsAndTheirHashes) {
  const api::TrainingJob job = JobBuilder().Build();

  const std::set<std::string> worker = MountedItems(Worker(job));
  const std::set<std::string> launcher = MountedItems(Launcher(job));

  EXPECT_EQ(worker,
            (std::set<std::string>{"ssh-user-key.pub", "ssh-host-key", "tls.crt", "agent-token"}));
  EXPECT_EQ(launcher, (std::set<std::string>{"ssh-user-key", "ssh-host-key.pub", "tls.key",
                                             "tls.crt", "agent-token", "operator-token"}));
  const json hashes = *ParseJson(Variable(Managed(Worker(job)), control::kEnvItemHashes));
  EXPECT_EQ(hashes.size(), worker.size());
  EXPECT_EQ(hashes["tls.crt"], Keys().hashes.at("tls.crt"));
}

TEST(Pods, CarryTheContractInTheirEnvironment) {
  const json pod = Worker(JobBuilder().Build(), 7);
  const json& container = Managed(pod);

  EXPECT_EQ(Variable(container, control::kEnvWorkerIndex), "7");
  EXPECT_EQ(Variable(container, control::kEnvLauncherAddress), "10.96.0.7");
  EXPECT_EQ(Variable(container, control::kEnvLauncherPort), "8470");
  EXPECT_EQ(Variable(container, control::kEnvJobUid), ringmaster::testing::kJobUid);
  const auto spec = control::DecodeLaunchSpec(Variable(container, control::kEnvLaunchSpec));
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->command.front(), "ringmaster-train");
  EXPECT_EQ(container["command"], json::array({control::kAgentProgram}));
  EXPECT_EQ(pod["metadata"]["name"], "digits-worker-7");
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Never");
}

TEST(Pods, KnowTheSizesOfAWorldInOrder) {
  api::TrainingJob job = JobBuilder().Build();
  job.spec.elasticity_mode = api::ElasticityMode::kRestart;
  job.spec.allowed_sizes = {4, 1, 2};
  for (const json& pod : {Launcher(job), Worker(job)}) {
    const auto spec = control::DecodeLaunchSpec(Variable(Managed(pod), control::kEnvLaunchSpec));
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_EQ(spec->allowed_sizes, (std::vector<int>{1, 2, 4}));
  }
}

TEST(Pods, KnowWhetherTheirRanksGoOnInPlace) {
  const auto in_place = [](const api::TrainingJob& job) {
    return control::DecodeLaunchSpec(Variable(Managed(Worker(job)), control::kEnvLaunchSpec))
        ->in_place;
  };
  api::TrainingJob job = JobBuilder().Build();
  EXPECT_EQ(in_place(job), true);
  job.spec.command = {"autoencoder"};
  EXPECT_EQ(in_place(job), false);
  job.spec.elasticity_mode = api::ElasticityMode::kInPlace;
  EXPECT_EQ(in_place(job), true);
}

TEST(Pods, KeepDollarSignsOfTheCommandFromTheKubelet) {
  api::TrainingJob job = JobBuilder().Build();
  job.spec.command = {"sh", "-c", "kill $$; echo $(HOME)"};

  const std::string value = Variable(Managed(Worker(job)), control::kEnvLaunchSpec);

  EXPECT_NE(value.find("kill $$$$; echo $$(HOME)"), std::string::npos) << value;
}

TEST(Pods, WorkersKnowTheirGpus) {
  const api::TrainingJob with_gpus = JobBuilder()
                                         .WorkerTemplate(R"({"spec": {"containers": [
             {"name": "worker", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}})")
                                         .Build();

  const api::TrainingJob with_slices = JobBuilder()
                                           .WorkerTemplate(R"({"spec": {"containers": [
             {"name": "worker", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "3"}}},
             {"name": "other", "resources": {"limits": {"nvidia.com/gpu": 4}}}]}})")
                                           .Build();

  EXPECT_EQ(Variable(Managed(Worker(with_gpus)), control::kEnvGpus), "8");
  EXPECT_EQ(Variable(Managed(Worker(with_slices)), control::kEnvGpus), "1");
  EXPECT_EQ(Variable(Managed(Worker(JobBuilder().Build())), control::kEnvGpus), "");
}

TEST(Pods, ANodeIsAvoidedWhateverElseTheTemplatePrefers) {
  json plain = {{"spec", json::object()}};
  AvoidNodes(plain, {});
  EXPECT_EQ(plain, (json{{"spec", json::object()}}));
  json with_own = json::parse(R"({"spec": {"affinity": {"nodeAffinity": {
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}}}})");

  AvoidNodes(with_own, {"node1", "node2"});

  const json& preferred = with_own["spec"]["affinity"]["nodeAffinity"]
                                  ["preferredDuringSchedulingIgnoredDuringExecution"];
  ASSERT_EQ(preferred.size(), 2U);
  EXPECT_EQ(preferred[1], json::parse(R"({"weight": 100, "preference": {"matchFields": [
    {"key": "metadata.name", "operator": "NotIn", "values": ["node1"]},
    {"key": "metadata.name", "operator": "NotIn", "values": ["node2"]}]}})"));
}

TEST(Pods, WorkersKnowHowFarTheJobMayGrow) {
  api::TrainingJob job = JobBuilder().Build();
  EXPECT_EQ(Variable(Managed(Worker(job)), control::kEnvMaxRanks), "");
  job.spec.worker.max_replicas = 8;
  job.spec.slots_per_worker = 4;

  EXPECT_EQ(Variable(Managed(Worker(job)), control::kEnvMaxRanks), "32");
}

TEST(Pods, AnImageThatLacksOurProgramsGetsThemFromAnInitContainer) {
  const Injection injection{.image = "localhost/ringmaster-tools:1",
                            .own_images = {"localhost/ringmaster-worker"}};
  api::TrainingJob job = JobBuilder().Build();
  job.spec.image = "docker.io/pytorch/pytorch:2.9";

  for (const json& pod : {Worker(job, 0, injection), Launcher(job, injection)}) {
    ASSERT_EQ(pod["spec"]["initContainers"].size(), 1U);
    const json& init = pod["spec"]["initContainers"][0];
    EXPECT_EQ(init["image"], "localhost/ringmaster-tools:1");
    EXPECT_EQ(init["command"][1], "install");
    EXPECT_EQ(init["command"][2], control::kToolsFolder);
    EXPECT_EQ(init["volumeMounts"][0]["mountPath"], control::kToolsFolder);
    EXPECT_FALSE(init["volumeMounts"][0].contains("readOnly"));
    EXPECT_TRUE(Managed(pod)["command"][0].get<std::string>().starts_with(
        "/ringmaster/tools/bin/ringmaster-"));
    const json& mounts = Managed(pod)["volumeMounts"];
    const auto mount = std::ranges::find_if(
        mounts, [](const json& one) { return one["mountPath"] == control::kToolsFolder; });
    ASSERT_NE(mount, mounts.end());
    EXPECT_EQ((*mount)["readOnly"], true) << "the program of a tenant cannot change ours";
    EXPECT_EQ(pod["spec"]["securityContext"]["runAsUser"], 1000);
    ExpectRestricted(pod);
    EXPECT_EQ(init["securityContext"]["capabilities"]["drop"], json::array({"ALL"}));
    EXPECT_TRUE(CheckPod(pod, JobRules{}).empty());
  }
}

TEST(Pods, TheImageOfTheProgramsCanBeAVolume) {
  const Injection injection{.image = "localhost/ringmaster-tools:1"};
  api::TrainingJob job = JobBuilder().Build();
  job.spec.inject = api::InjectMode::kImageVolume;
  for (json pod : {Worker(job, 0, injection), Launcher(job, injection)}) {
    EXPECT_FALSE(pod["spec"].contains("initContainers"));
    json& volumes = pod["spec"]["volumes"];
    const auto volume = std::ranges::find_if(
        volumes, [](const json& one) { return one["name"] == "ringmaster-tools"; });
    ASSERT_NE(volume, volumes.end());
    EXPECT_EQ((*volume)["image"]["reference"], "localhost/ringmaster-tools:1");
    EXPECT_FALSE(volume->contains("emptyDir"));
    const json& mounts = Managed(pod)["volumeMounts"];
    const auto mount = std::ranges::find_if(
        mounts, [](const json& one) { return one["mountPath"] == control::kToolsFolder; });
    ASSERT_NE(mount, mounts.end());
    EXPECT_EQ((*mount)["subPath"], "ringmaster") << "the programs are in ringmaster/bin";
    EXPECT_EQ((*mount)["readOnly"], true);
    EXPECT_TRUE(Managed(pod)["command"][0].get<std::string>().starts_with(
        "/ringmaster/tools/bin/ringmaster-"));
    ExpectRestricted(pod);
    EXPECT_TRUE(CheckPod(pod, JobRules{}).empty());

    (*volume)["name"] = "another";
    EXPECT_FALSE(CheckPod(pod, JobRules{}).empty()) << "no other volume may be an image";
  }
}

TEST(Pods, WhetherProgramsAreBroughtIsTheOperatorsAndTheJobsToSay) {
  const Injection injection{.image = "tools:1", .own_images = {"localhost/ringmaster-worker"}};
  const auto brought = [](const api::TrainingJob& job, const Injection& with) {
    return Worker(job, 0, with)["spec"].contains("initContainers");
  };
  api::TrainingJob job = JobBuilder().Build();
  job.spec.image = "localhost/ringmaster-worker:0.1.0";
  EXPECT_FALSE(brought(job, injection));
  job.spec.inject = api::InjectMode::kInitContainer;
  EXPECT_TRUE(brought(job, injection));
  EXPECT_FALSE(brought(job, {}));

  job.spec.image = "localhost/ringmaster-workers-like:1";
  job.spec.inject = api::InjectMode::kAuto;
  EXPECT_TRUE(brought(job, injection));
  job.spec.inject = api::InjectMode::kNone;
  EXPECT_FALSE(brought(job, injection));
}

TEST(Pods, ProgramsAreBroughtToAllPodsOfAJobOrToNone) {
  const Injection injection{.image = "tools:1", .own_images = {"localhost/ringmaster-worker"}};
  api::TrainingJob job = JobBuilder().Build();
  job.spec.image = "docker.io/pytorch/pytorch:2.9";
  job.spec.launcher_template_json = R"({"spec": {"containers": [
    {"name": "launcher", "image": "localhost/ringmaster-worker:1"}]}})";

  EXPECT_TRUE(Worker(job, 0, injection)["spec"].contains("initContainers"));
  EXPECT_TRUE(Launcher(job, injection)["spec"].contains("initContainers"));
}

// A new image would mix two releases in a run. A forged pin must not select another repository.
TEST(Pods, ARunKeepsTheToolsImageThatItBeganWithAsLongAsItIsOfTheOperatorsRepository) {
  api::TrainingJob job = JobBuilder().Build();
  job.spec.image = "docker.io/pytorch/pytorch:2.9";
  const Injection now{.image = "reg:5000/team/tools:2", .own_images = {}};
  const auto of_run = [&](const char* pinned) { return ToolsImageOfRun(pinned, now, job.spec); };

  for (const char* same : {"reg:5000/team/tools:1", "reg:5000/team/tools",
                           "reg:5000/team/tools@sha256:1", "reg:5000/team/tools:1@sha256:1", ""}) {
    EXPECT_EQ(of_run(same), same);
  }
  for (const char* other : {"reg:5000/team/tools/evil:1", "reg:5000/team/tools-2:1",
                            "reg/team/tools:1", "team/tools:1", "reg:5001/team/tools:1"}) {
    EXPECT_EQ(of_run(other), "reg:5000/team/tools:2") << other;
  }
  EXPECT_EQ(ToolsImageOfRun("tools:1", {}, job.spec), "");
}

TEST(Pods, WhatBringsProgramsNeedsWhatItsPodHasAnyway) {
  api::TrainingJob job = JobBuilder().Build();
  job.spec.worker.template_json = R"({"spec": {"containers": [{"name": "worker", "resources": {
    "requests": {"cpu": "4", "memory": "8Gi"},
    "limits": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": 1}}}]}})";

  const json pod = Worker(job, 0, {.image = "tools:1", .own_images = {}});

  EXPECT_EQ(pod["spec"]["initContainers"][0]["resources"], json::parse(R"({
    "requests": {"cpu": "4", "memory": "8Gi"}, "limits": {"cpu": "4", "memory": "8Gi"}})"));
  EXPECT_EQ(
      Launcher(job,
               {.image = "tools:1",
                .own_images = {}})["spec"]["initContainers"][0]["resources"]["limits"]["memory"],
      "512Mi");
}

TEST(Pods, AUserThatATemplateNamesStays) {
  api::TrainingJob job = JobBuilder().Build();
  job.spec.worker.template_json = R"({"spec": {"securityContext": {"runAsUser": 5000},
    "initContainers": [{"name": "first", "image": "i"}]}})";

  const json pod = Worker(job, 0, {.image = "tools:1", .own_images = {}});

  EXPECT_EQ(pod["spec"]["securityContext"]["runAsUser"], 5000);
  ASSERT_EQ(pod["spec"]["initContainers"].size(), 2U);
  EXPECT_EQ(pod["spec"]["initContainers"][0]["name"], kToolsName);

  job.spec.worker.template_json = R"({"spec": {"securityContext": {"runAsNonRoot": false}}})";
  const json of_image = Worker(job, 0, {.image = "tools:1", .own_images = {}});
  EXPECT_FALSE(of_image["spec"]["securityContext"].contains("runAsUser"));
}

TEST(Pods, LaunchSpecHasTheLaunchAgent) {
  api::TrainingJobSpec spec = JobBuilder().Build().spec;
  EXPECT_EQ(LaunchSpecOf(spec).launch_agent, control::LaunchAgent::kAuto);
  spec.mpi_launch_agent = control::LaunchAgent::kAgent;

  EXPECT_EQ(LaunchSpecOf(spec).launch_agent, control::LaunchAgent::kAgent);
}

TEST(Pods, AProgramThatStartsItsRanksByItselfGetsTheirNumber) {
  api::TrainingJobSpec spec = JobBuilder().Build().spec;
  spec.command = {"torchrun", "train.py"};
  spec.slots_per_worker = 8;
  EXPECT_EQ(LaunchSpecOf(spec).slots_per_worker, 8);
  EXPECT_FALSE(LaunchSpecOf(spec).PerWorker());
  spec.launch_mode = api::LaunchMode::kPerWorker;

  EXPECT_EQ(LaunchSpecOf(spec).slots_per_worker, 1);
  EXPECT_EQ(LaunchSpecOf(spec).ranks_per_process, 8);
}

TEST(Pods, LaunchersKnowTheRestartLimitOfTheJob) {
  api::TrainingJob job = JobBuilder().Build();
  EXPECT_EQ(Variable(Managed(Launcher(job)), control::kEnvRestartLimit), "");
  job.spec.run_policy.restart = {.limit = 3, .window = std::chrono::minutes(10)};

  EXPECT_EQ(Variable(Managed(Launcher(job)), control::kEnvRestartLimit), "3");
  EXPECT_EQ(Variable(Managed(Launcher(job)), control::kEnvRestartWindowSeconds), "600");
  EXPECT_EQ(Variable(Managed(Launcher(job)), control::kEnvCrashLimit), "5");
  EXPECT_EQ(Variable(Managed(Launcher(job)), control::kEnvFailOnExitCodes), "");

  job.spec.run_policy.restart->fail_codes = {3, 4};
  job.spec.run_policy.restart->ignored_codes = {77};
  EXPECT_EQ(Variable(Managed(Launcher(job)), control::kEnvFailOnExitCodes), "3,4");
  EXPECT_EQ(Variable(Managed(Launcher(job)), control::kEnvIgnoreExitCodes), "77");
}

TEST(Pods, SayAfterHowLongTheJobCountsSomethingAsLostToWhoeverJudgesIt) {
  api::TrainingJob job = JobBuilder().Build();
  for (const json& pod : {Launcher(job), Worker(job)}) {
    for (const char* name : {control::kEnvLostAfterMillis, control::kEnvStallMillis,
                             control::kEnvLoadLimitMillis, control::kEnvConnectTimeoutSeconds}) {
      EXPECT_EQ(Variable(Managed(pod), name), "") << name;
    }
  }
  job.spec.fault_tolerance = {.lost_after_millis = 5000,
                              .stall_after = std::chrono::seconds(0),
                              .load_timeout = std::chrono::hours(1),
                              .connect_timeout = std::chrono::seconds(90)};

  EXPECT_EQ(Variable(Managed(Launcher(job)), control::kEnvLostAfterMillis), "5000");
  EXPECT_EQ(Variable(Managed(Launcher(job)), control::kEnvStallMillis), "0");
  EXPECT_EQ(Variable(Managed(Worker(job)), control::kEnvLoadLimitMillis), "3600000");
  EXPECT_EQ(Variable(Managed(Worker(job)), control::kEnvConnectTimeoutSeconds), "90");
}

TEST(Pods, AProgramHasTheTimeToEndThatTheJobSays) {
  api::TrainingJob job = JobBuilder().Build();
  EXPECT_EQ(Variable(Managed(Worker(job)), control::kEnvStopGraceSeconds), "");
  EXPECT_EQ(Worker(job)["spec"]["terminationGracePeriodSeconds"], 10);
  job.spec.fault_tolerance.stop_grace = std::chrono::seconds(30);
  EXPECT_EQ(Worker(job)["spec"]["terminationGracePeriodSeconds"], 10) << "its ranks stay";
  job.spec.elasticity_mode = api::ElasticityMode::kRestart;

  for (const json& pod : {Launcher(job), Worker(job)}) {
    EXPECT_EQ(Variable(Managed(pod), control::kEnvStopGraceSeconds), "30");
    EXPECT_EQ(pod["spec"]["terminationGracePeriodSeconds"], 35);
  }
}

TEST(Pods, LaunchersKnowHowLongAStartWaitsForAllWorkers) {
  api::TrainingJob job = JobBuilder().Build();
  EXPECT_EQ(Variable(Managed(Launcher(job)), control::kEnvStartWaitSeconds), "");
  job.spec.start_wait = std::chrono::minutes(2);

  EXPECT_EQ(Variable(Managed(Launcher(job)), control::kEnvStartWaitSeconds), "120");
}

TEST(Pods, BelongToTheJob) {
  const json pod = Launcher(JobBuilder().Build());

  const json& owner = pod["metadata"]["ownerReferences"][0];
  EXPECT_EQ(owner["uid"], ringmaster::testing::kJobUid);
  EXPECT_EQ(owner["controller"], true);
  EXPECT_EQ(owner["blockOwnerDeletion"], true);
  EXPECT_EQ(pod["metadata"]["labels"][api::kLabelTerm], "1");
  EXPECT_EQ(pod["metadata"]["annotations"][api::kAnnotationSeedId], "s1");
  EXPECT_EQ(pod["metadata"]["labels"][api::kLabelManagedBy], api::kManagedBy);
}

TEST(Pods, TemplateIsKeptAroundWhatIsOurs) {
  const api::TrainingJob job = JobBuilder()
                                   .WorkerTemplate(R"({
            "metadata": {"labels": {"team": "a"}},
            "spec": {"nodeSelector": {"gpu": "x"}, "terminationGracePeriodSeconds": 60,
                     "volumes": [{"name": "mine", "emptyDir": {}}],
                     "containers": [{"name": "side"},
                                    {"name": "worker", "image": "mine:1", "env": [{"name": "A", "value": "1"}],
                                     "volumeMounts": [{"name": "mine", "mountPath": "/tmp/"}]}]}})")
                                   .Build();

  const json pod = Worker(job);

  EXPECT_EQ(pod["metadata"]["labels"]["team"], "a");
  EXPECT_EQ(pod["spec"]["nodeSelector"]["gpu"], "x");
  EXPECT_EQ(pod["spec"]["terminationGracePeriodSeconds"], 60);
  const json& container = pod["spec"]["containers"][1];
  EXPECT_EQ(container["image"], "mine:1");
  EXPECT_EQ(Variable(container, "A"), "1");
  std::multiset<std::string> paths;
  for (const json& mount : container["volumeMounts"])
    paths.insert(mount["mountPath"].get<std::string>());
  EXPECT_EQ(paths,
            (std::multiset<std::string>{"/tmp/", "/dev/shm", "/etc/ringmaster/credentials"}));
}

TEST(Pods, LauncherHasDefaultResourcesUnlessTheTemplateSaysOtherwise) {
  const json standard = Launcher(JobBuilder().Build());
  const json chosen = Launcher(
      JobBuilder()
          .LauncherTemplate(
              R"({"spec": {"containers": [{"name": "launcher", "resources": {"requests": {"cpu": "2"}}}]}})")
          .Build());

  EXPECT_EQ(Managed(standard)["resources"]["limits"]["memory"], "512Mi");
  EXPECT_EQ(Managed(chosen)["resources"], (json{{"requests", {{"cpu", "2"}}}}));
}

TEST(Pods, WhatIsMountedBelowAHostsPathIsReadOnlyToo) {
  const json pod = Worker(JobBuilder()
                              .WorkerTemplate(R"({"spec": {
      "volumes": [{"name": "h", "hostPath": {"path": "/data"}}, {"name": "e", "emptyDir": {}}],
      "initContainers": [{"name": "i", "volumeMounts": [{"name": "h", "mountPath": "/h", "readOnly": true, "recursiveReadOnly": "Enabled"}]}],
      "containers": [{"name": "side", "volumeMounts": [{"name": "h", "mountPath": "/h", "readOnly": true},
                                                       {"name": "e", "mountPath": "/e"}]},
                     {"name": "worker"}]}})")
                              .Build());

  const json& mounts = pod["spec"]["containers"][0]["volumeMounts"];
  EXPECT_EQ(mounts[0]["recursiveReadOnly"], "IfPossible");
  EXPECT_FALSE(mounts[1].contains("recursiveReadOnly"));
  EXPECT_EQ(pod["spec"]["initContainers"][0]["volumeMounts"][0]["recursiveReadOnly"], "Enabled");
}

// Without this variable, NVIDIA's container runtime gives CUDA images all GPUs of the node.
TEST(Pods, AContainerThatAsksForNoGpuSeesNone) {
  const auto visible = [](const json& container) {
    return Variable(container, "NVIDIA_VISIBLE_DEVICES");
  };
  const struct {
    const char* container;
    const char* visible;  // empty: the variable is not set
  } table[] = {
      {R"({})", "void"},
      {R"({"resources": {"limits": {"cpu": 4, "hugepages-2Mi": "1Gi"}}})", "void"},
      {R"({"resources": {"limits": {"nvidia.com/gpu": 0}}})", "void"},
      {R"({"resources": {"limits": {"nvidia.com/gpu": "0k"}}})", "void"},
      {R"({"resources": {"limits": {"nvidia.com/gpu": "1"}}})", ""},
      {R"({"resources": {"limits": {"nvidia.com/gpu": "1e0"}}})", ""},
      {R"({"resources": {"limits": {"nvidia.com/mig-1g.5gb": 2}}})", ""},
      {R"({"resources": {"limits": {"rdma/hca": 1}}})", "void"},
      {R"({"resources": {"claims": [{"name": "gpu"}]}})", ""},
      {R"({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]})", "all"},
  };
  for (const auto& [text, expected] : table) {
    json worker = json::parse(text);
    worker["name"] = "worker";
    json other = json::parse(text);
    other["name"] = "other";
    const json pod_template{{"spec",
                             {{"initContainers", json::array({other})},
                              {"containers", json::array({worker, {{"name", "side"}}})}}}};

    const json pod = Worker(JobBuilder().WorkerTemplate(pod_template.dump()).Build());

    EXPECT_EQ(visible(Managed(pod)), expected) << text;
    EXPECT_EQ(visible(pod["spec"]["initContainers"][0]), expected) << text;
    EXPECT_EQ(visible(pod["spec"]["containers"][1]), "void") << text;
  }
  api::TrainingJob rdma = JobBuilder().Build();
  rdma.spec.worker.rdma["rdma/hca"] = 1;
  EXPECT_EQ(visible(Managed(Worker(rdma))), "void");
  EXPECT_EQ(visible(Managed(Launcher(rdma))), "void");
}

TEST(Pods, CheckpointsAreMountedWhereWorkersLookForThem) {
  const api::TrainingJob job =
      JobBuilder()
          .Checkpoint({.volume_json = R"({"persistentVolumeClaim":{"claimName":"ckpt"}})",
                       .every_steps = 100,
                       .keep = 5})
          .Build();

  const json worker = Worker(job);
  const json launcher = Launcher(job);

  const json volume{{"name", "ringmaster-checkpoints"},
                    {"persistentVolumeClaim", {{"claimName", "ckpt"}}}};
  const json mount{{"name", "ringmaster-checkpoints"}, {"mountPath", "/ringmaster/checkpoints"}};
  const auto has = [](const json& list, const json& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
  };
  EXPECT_TRUE(has(worker["spec"]["volumes"], volume));
  EXPECT_TRUE(has(Managed(worker)["volumeMounts"], mount));
  EXPECT_EQ(Variable(Managed(worker), control::kEnvCheckpointDir), "/ringmaster/checkpoints");
  EXPECT_EQ(Variable(Managed(worker), control::kEnvCheckpointEvery), "100");
  EXPECT_EQ(Variable(Managed(worker), control::kEnvCheckpointKeep), "5");
  EXPECT_FALSE(has(launcher["spec"]["volumes"], volume));
}

TEST(Pods, RanksGetTheStateFromWhichToStart) {
  const auto told = [](const api::CheckpointSpec& checkpoint, const char* variable) {
    return Variable(Managed(Worker(JobBuilder().Checkpoint(checkpoint).Build())), variable);
  };
  const std::string volume = R"({"persistentVolumeClaim": {"claimName": "states"}})";
  const api::CheckpointSpec job{.volume_json = volume, .restore_job = "digits"};
  const api::CheckpointSpec path{.volume_json = volume, .restore_path = "team/digits"};
  EXPECT_EQ(told(job, control::kEnvRestoreJob), "digits");
  EXPECT_EQ(told(job, control::kEnvRestorePath), "");
  EXPECT_EQ(told(path, control::kEnvRestorePath), "team/digits");
  EXPECT_EQ(told({.volume_json = volume}, control::kEnvRestoreJob), "");
}

TEST(Pods, AJobWithoutCheckpointsMountsNone) {
  EXPECT_EQ(Variable(Managed(Worker(JobBuilder().Build())), control::kEnvCheckpointDir), "");
}

TEST(Pods, ADataCacheIsAVolumeToReadAndOneInMemory) {
  const api::TrainingJob job =
      JobBuilder()
          .DataCache({.from_json = R"({"persistentVolumeClaim":{"claimName":"faces"}})",
                      .sub_path = "glint$360k",
                      .size_limit = "140Gi"})
          .Build();

  const json worker = Worker(job);
  const json launcher = Launcher(job);

  const auto has = [](const json& list, const json& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
  };
  const json& volumes = worker["spec"]["volumes"];
  EXPECT_TRUE(has(volumes, {{"name", "ringmaster-data-source"},
                            {"persistentVolumeClaim", {{"claimName", "faces"}}}}));
  EXPECT_TRUE(has(volumes, {{"name", "ringmaster-data"},
                            {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", "140Gi"}}}}));
  const json& mounts = Managed(worker)["volumeMounts"];
  EXPECT_TRUE(has(mounts, {{"name", "ringmaster-data-source"},
                           {"mountPath", "/ringmaster/data-source"},
                           {"readOnly", true}}));
  EXPECT_TRUE(has(mounts, {{"name", "ringmaster-data"}, {"mountPath", "/ringmaster/data"}}));
  EXPECT_EQ(Variable(Managed(worker), control::kEnvDataSource), "/ringmaster/data-source");
  EXPECT_EQ(Variable(Managed(worker), control::kEnvDataSubPath), "glint$$360k");
  EXPECT_EQ(Variable(Managed(worker), control::kEnvDataDir), "/ringmaster/data");
  EXPECT_EQ(launcher["spec"]["volumes"].dump().find("ringmaster-data"), std::string::npos);
  EXPECT_EQ(Variable(Managed(launcher), control::kEnvDataDir), "");
}

TEST(Pods, AJobWithoutADataCacheHasNoneOfIt) {
  const json worker = Worker(JobBuilder().Build());

  EXPECT_EQ(worker["spec"]["volumes"].dump().find("ringmaster-data"), std::string::npos);
  EXPECT_EQ(Variable(Managed(worker), control::kEnvDataDir), "");
}

}  // namespace
}  // namespace ringmaster::job
