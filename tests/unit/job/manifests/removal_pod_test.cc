#include "operator/job/manifests/removal_pod.h"

#include <map>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "operator/api/names.h"
#include "operator/job/admission/pod_policy.h"
#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using ringmaster::testing::JobBuilder;

constexpr char kVolume[] = R"({"persistentVolumeClaim":{"claimName":"states"}})";

const JobRules& RulesWithRoot() {
  static const JobRules rules{.ns = "team-a",
                              .host_network = true,
                              .privileged = true,
                              .root = true,
                              .service_accounts = {"trainer"},
                              .capabilities = {"IPC_LOCK"},
                              .devices = {"rdma/hca"}};
  return rules;
}

json PodOf(const api::TrainingJob& job, const JobRules& rules = RulesWithRoot(),
           const Injection& injection = {}) {
  const Judgement judgement = Judge(job, rules);
  for (const Violation& violation : judgement.violations) ADD_FAILURE() << violation.Text();
  const json pod = RemovalPod(judgement.allowed.value(), injection);
  EXPECT_TRUE(CheckPod(pod, rules).empty());
  return pod;
}

json TemplateOf(const json& spec) { return {{"spec", spec}}; }

TEST(RemovalPod, BringsItsProgramWhereTheImageLacksIt) {
  JobRules rules;
  rules.max_gpus = 8;  // rejects containers without NVIDIA_VISIBLE_DEVICES
  const json pod = PodOf(JobBuilder().Checkpoint({.volume_json = kVolume}).Build(), rules,
                         {.image = "tools:1", .own_images = {}});

  const json& spec = pod["spec"];
  ASSERT_EQ(spec["initContainers"].size(), 1U);
  EXPECT_EQ(spec["initContainers"][0]["image"], "tools:1");
  EXPECT_EQ(spec["containers"][0]["command"],
            json({"/ringmaster/tools/bin/ringmaster-agent", "--remove-checkpoints"}));
  EXPECT_EQ(spec["volumes"].size(), 2U);
  EXPECT_EQ(spec["securityContext"]["runAsUser"], 1000) << "as its workers";
}

TEST(RemovalPod, HasTheVolumeTheImageAndNoRights) {
  const json pod = PodOf(JobBuilder().Checkpoint({.volume_json = kVolume}).Build(), {});

  EXPECT_EQ(pod["metadata"]["name"], "digits-clean-up-11111111");
  EXPECT_EQ(pod["metadata"]["labels"][api::kLabelManagedBy], api::kManagedBy);
  EXPECT_FALSE(pod["metadata"].contains("ownerReferences"))
      << "the deletion of the job would take it along";
  const json& spec = pod["spec"];
  EXPECT_EQ(spec["restartPolicy"], "Never");
  EXPECT_EQ(spec["automountServiceAccountToken"], false);
  EXPECT_EQ(spec["activeDeadlineSeconds"], kRemovalPodLimit.count());
  EXPECT_EQ(spec["securityContext"]["runAsNonRoot"], true);
  EXPECT_EQ(spec["securityContext"]["fsGroup"], 1000);
  EXPECT_EQ(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
  ASSERT_EQ(spec["volumes"].size(), 1U);
  EXPECT_EQ(spec["volumes"][0]["persistentVolumeClaim"]["claimName"], "states");
  ASSERT_EQ(spec["containers"].size(), 1U);
  const json& container = spec["containers"][0];
  EXPECT_EQ(container["image"], "registry.example.com/worker:1");
  EXPECT_EQ(container["command"], json({"ringmaster-agent", "--remove-checkpoints"}));
  ASSERT_EQ(container["volumeMounts"].size(), 1U);
  EXPECT_EQ(container["volumeMounts"][0]["mountPath"], control::kCheckpointDir);
  const json& context = container["securityContext"];
  EXPECT_EQ(context["allowPrivilegeEscalation"], false);
  EXPECT_EQ(context["readOnlyRootFilesystem"], true);
  EXPECT_EQ(context["capabilities"]["drop"], json::array({"ALL"}));
  std::map<std::string, std::string> env;
  for (const json& variable : container["env"])
    env[variable["name"].get<std::string>()] = variable["value"].get<std::string>();
  EXPECT_EQ(env[control::kEnvNamespace], "team-a");
  EXPECT_EQ(env[control::kEnvJobName], "digits");
  EXPECT_EQ(env[control::kEnvJobUid], ringmaster::testing::kJobUid);
  EXPECT_EQ(env[control::kEnvCheckpointDir], control::kCheckpointDir);
}

TEST(RemovalPod, RunsAsTheWorkersUserWhereWorkersMayRun) {
  const json worker{{"name", "worker"},
                    {"image", "registry.example.com/own:2"},
                    {"imagePullPolicy", "Always"},
                    {"securityContext", {{"runAsUser", 2000}}},
                    {"resources", {{"limits", {{"nvidia.com/gpu", 8}}}}},
                    {"env", json::array({{{"name", "A"}, {"value", "b"}}})}};
  const json given{{"containers", json::array({worker, {{"name", "sidecar"}, {"image", "s"}}})},
                   {"initContainers", json::array({{{"name", "first"}, {"image", "f"}}})},
                   {"volumes", json::array({{{"name", "data"}, {"emptyDir", json::object()}}})},
                   {"imagePullSecrets", json::array({{{"name", "registry"}}})},
                   {"serviceAccountName", "trainer"},
                   {"nodeSelector", {{"pool", "gpu"}}},
                   {"tolerations", json::array({{{"key", "gpu"}, {"operator", "Exists"}}})},
                   {"securityContext", {{"fsGroup", 3000}, {"supplementalGroups", {5}}}},
                   {"affinity", {{"nodeAffinity", {{"a", 1}}}, {"podAntiAffinity", {{"b", 1}}}}}};
  const json pod = PodOf(JobBuilder()
                             .Checkpoint({.volume_json = kVolume})
                             .WorkerTemplate(TemplateOf(given).dump())
                             .Build());

  const json& spec = pod["spec"];
  for (const char* field :
       {"imagePullSecrets", "serviceAccountName", "nodeSelector", "tolerations"}) {
    EXPECT_EQ(spec[field], given[field]) << field;
  }
  EXPECT_EQ(spec["affinity"], json({{"nodeAffinity", {{"a", 1}}}}));
  EXPECT_EQ(spec["securityContext"]["fsGroup"], 3000);
  EXPECT_EQ(spec["securityContext"]["supplementalGroups"], json({5}));
  EXPECT_FALSE(spec.contains("initContainers"));
  ASSERT_EQ(spec["volumes"].size(), 1U);
  ASSERT_EQ(spec["containers"].size(), 1U);
  const json& container = spec["containers"][0];
  EXPECT_EQ(container["image"], "registry.example.com/own:2");
  EXPECT_EQ(container["imagePullPolicy"], "Always");
  EXPECT_EQ(container["securityContext"]["runAsUser"], 2000);
  EXPECT_FALSE(container["resources"]["limits"].contains("nvidia.com/gpu"));
  EXPECT_EQ(container["env"].dump().find("\"A\""), std::string::npos);
}

TEST(RemovalPod, HasTheLabelsAndAnnotationsThatPoliciesMayRequireOfTheWorkers) {
  const std::string apparmor = "container.apparmor.security.beta.kubernetes.io/";
  const json annotations{{"sidecar.istio.io/inject", "false"},
                         {apparmor + "worker", "runtime/default"},
                         {apparmor + "sidecar", "runtime/default"}};
  const json given{{"metadata", {{"labels", {{"team", "vision"}}}, {"annotations", annotations}}}};

  const json pod =
      PodOf(JobBuilder().Checkpoint({.volume_json = kVolume}).WorkerTemplate(given.dump()).Build());

  const json& metadata = pod["metadata"];
  EXPECT_EQ(metadata["labels"]["team"], "vision");
  EXPECT_EQ(metadata["labels"][api::kLabelManagedBy], api::kManagedBy);
  EXPECT_EQ(metadata["labels"][api::kLabelRole], api::kRoleCleanUp);
  EXPECT_EQ(metadata["annotations"],
            json({{"sidecar.istio.io/inject", "false"}, {apparmor + "worker", "runtime/default"}}))
      << "the Pod has no sidecar";
}

TEST(RemovalPod, RunsInTheSandboxOfTheWorkers) {
  const json local{{"type", "Localhost"}, {"localhostProfile", "training"}};
  const json worker{{"name", "worker"},
                    {"securityContext", {{"seccompProfile", local}, {"appArmorProfile", local}}}};
  const json given{{"containers", json::array({worker})},
                   {"runtimeClassName", "gvisor"},
                   {"hostUsers", false},
                   {"securityContext", {{"appArmorProfile", {{"type", "RuntimeDefault"}}}}}};
  const json pod = PodOf(JobBuilder()
                             .Checkpoint({.volume_json = kVolume})
                             .WorkerTemplate(TemplateOf(given).dump())
                             .Build());

  const json& spec = pod["spec"];
  EXPECT_EQ(spec["runtimeClassName"], "gvisor");
  EXPECT_EQ(spec["hostUsers"], false);
  EXPECT_EQ(spec["securityContext"]["appArmorProfile"]["type"], "RuntimeDefault");
  const json& context = spec["containers"][0]["securityContext"];
  EXPECT_EQ(context["seccompProfile"], local);
  EXPECT_EQ(context["appArmorProfile"], local);
}

TEST(RemovalPod, RootOfAPrivilegedJobIsRootWithoutPrivileges) {
  api::TrainingJob job = JobBuilder().Checkpoint({.volume_json = kVolume}).Build();
  job.spec.worker.privileged = job.spec.host_network = job.spec.worker.ipc_lock = true;
  job.spec.worker.rdma = {{"rdma/hca", 1}};

  const json pod = PodOf(job);

  const json& context = pod["spec"]["containers"][0]["securityContext"];
  EXPECT_EQ(context["runAsUser"], 0);
  EXPECT_EQ(context["runAsNonRoot"], false);
  EXPECT_EQ(context["allowPrivilegeEscalation"], false);
  EXPECT_FALSE(context.contains("privileged"));
  EXPECT_FALSE(context["capabilities"].contains("add"));
  EXPECT_FALSE(pod["spec"].contains("hostNetwork"));
}

}  // namespace
}  // namespace ringmaster::job
