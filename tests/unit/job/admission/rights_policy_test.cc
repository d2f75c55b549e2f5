#include "operator/job/admission/rights_policy.h"

#include <gtest/gtest.h>

#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

api::TrainingJobSpec Spec(const char* worker_template = "", int replicas = 2) {
  api::TrainingJobSpec spec;
  spec.image = "example.com/team/worker:1";
  spec.worker.replicas = replicas;
  spec.worker.template_json = worker_template;
  return spec;
}

constexpr char kRejected[] = " is rejected in namespace ";  // follows the field's path in messages

std::string Only(const std::vector<Violation>& found) {
  EXPECT_EQ(found.size(), 1U);
  if (found.size() != 1) return {};
  EXPECT_TRUE(found[0].by_policy);
  return found[0].Text();
}

TEST(RequestPolicy, AnOrdinaryJobNeedsNoRules) {
  const auto spec = Spec(
      R"({"spec": {"containers": [{"name": "worker", "resources": {"limits": {"nvidia.com/gpu": 8, "cpu": 4, "hugepages-2Mi": "1Gi", "nvidia.com/mig-1g.5gb": 1}}}]}})",
      2000);

  EXPECT_TRUE(CheckRequests(spec, {}).empty());
}

TEST(RequestPolicy, OnlyAJobThatAsksForOurProgramsNeedsTheirImage) {
  JobRules rules;
  for (const bool has_tools : {false, true}) {
    rules.has_tools = has_tools;
    for (const api::InjectMode mode :
         {api::InjectMode::kAuto, api::InjectMode::kNone, api::InjectMode::kInitContainer,
          api::InjectMode::kImageVolume}) {
      auto spec = Spec();
      spec.inject = mode;
      const bool asks =
          mode == api::InjectMode::kInitContainer || mode == api::InjectMode::kImageVolume;

      const auto found = CheckRequests(spec, rules);

      ASSERT_EQ(found.size(), asks && !has_tools ? 1U : 0U) << static_cast<int>(mode);
      for (const Violation& one : found) EXPECT_EQ(one.path, "spec.inject");
    }
  }
}

TEST(RequestPolicy, TheHostsNetworkAndPrivilegesNeedTheirOwnItem) {
  struct Row {
    void (*ask)(api::TrainingJobSpec&);
    void (*allow)(JobRules&);
    const char* path;
    const char* item;
  };
  const Row table[] = {
      {[](auto& spec) { spec.host_network = true; }, [](auto& rules) { rules.host_network = true; },
       "spec.network.hostNetwork", "spec.allows.hostNetwork"},
      {[](auto& spec) { spec.worker.privileged = true; },
       [](auto& rules) { rules.privileged = rules.root = true; }, "spec.worker.privileged",
       "spec.allows.privileged and spec.allows.root"},
      {[](auto& spec) { spec.worker.ipc_lock = true; },
       [](auto& rules) { rules.capabilities = {"IPC_LOCK"}; }, "spec.worker.ipcLock",
       "spec.allows.capabilities"},
      {[](auto& spec) { spec.worker.rdma["rdma/hca"] = 1; },
       [](auto& rules) { rules.devices = {"rdma/hca"}; }, "spec.worker.rdma[rdma/hca]",
       "spec.allows.devices"},
      {[](auto& spec) {
         spec.worker.template_json =
             R"({"spec": {"containers": [{"name": "worker"}, {"name": "side", "resources": {"limits": {"example.com/nic": 1}}}]}})";
       },
       [](auto& rules) { rules.devices = {"example.com/nic"}; },
       "spec.worker.template.spec.containers[1].resources.limits[example.com/nic]",
       "spec.allows.devices"},
      {[](auto& spec) {
         spec.worker.template_json =
             R"({"spec": {"containers": [{"name": "worker", "resources": {"limits": {"deviceclass.resource.kubernetes.io/gpu": 1}}}]}})";
       },
       [](auto& rules) { rules.devices = {"deviceclass.resource.kubernetes.io/gpu"}; },
       "spec.worker.template.spec.containers[0].resources.limits[deviceclass.resource.kubernetes."
       "io/gpu]",
       "spec.allows.devices"},
      {[](auto& spec) {
         spec.launcher_template_json = R"({"spec": {"resourceClaims": [{"name": "a"}]}})";
       },
       [](auto& rules) { rules.resource_claims = true; },
       "spec.launcher.template.spec.resourceClaims", "spec.allows.resourceClaims"},
  };
  for (const Row& row : table) {
    api::TrainingJobSpec spec = Spec();
    row.ask(spec);
    for (const Row& other : table) {
      JobRules rules;
      rules.ns = "team-a";
      other.allow(rules);
      const auto found = CheckRequests(spec, rules);
      if (other.path == row.path) {
        EXPECT_TRUE(found.empty()) << row.path;
      } else {
        const std::string text = Only(found);
        EXPECT_EQ(text.rfind(std::string(row.path) + kRejected, 0), 0U) << text;
        EXPECT_NE(text.find(row.item), std::string::npos) << text;
      }
    }
  }
}

TEST(RequestPolicy, PrivilegedIsRootOrIsRefusedWithAllThatIsMissing) {
  JobRules rules;
  rules.ns = "team-a";
  api::TrainingJobSpec spec = Spec();
  spec.worker.privileged = true;

  const std::string all = Only(CheckRequests(spec, rules));
  EXPECT_NE(all.find("runs as root"), std::string::npos) << all;
  EXPECT_NE(all.find("spec.allows.privileged and spec.allows.root"), std::string::npos) << all;
  EXPECT_NE(all.find("Pod Security"), std::string::npos) << all;

  rules.privileged = true;
  const std::string root = Only(CheckRequests(spec, rules));
  EXPECT_NE(root.find("spec.allows.root"), std::string::npos) << root;
  EXPECT_EQ(root.find("allows.privileged"), std::string::npos) << root;

  rules.root = true;
  struct Row {
    const char* pod_template;
    const char* refused;  // empty: not rejected
  };
  const Row table[] = {
      {R"({"spec": {"securityContext": {"runAsUser": 0}}})", ""},
      {R"({"spec": {"securityContext": {"runAsUser": 1000}}})", "sets runAsUser to 1000"},
      {R"({"spec": {"containers": [{"name": "worker", "securityContext": {"runAsNonRoot": true}}]}})",
       "sets runAsNonRoot to true"},
      {R"({"spec": {"securityContext": {"runAsUser": 7}, "containers": [{"name": "worker", "securityContext": {"runAsUser": 0}}]}})",
       ""},
      {R"({"spec": {"containers": [{"name": "worker"}, {"name": "side", "securityContext": {"runAsUser": 7}}]}})",
       ""},
  };
  for (const Row& row : table) {
    spec.worker.template_json = row.pod_template;
    const auto found = CheckRequests(spec, rules);
    if (*row.refused == '\0') {
      EXPECT_TRUE(found.empty()) << row.pod_template;
      continue;
    }
    ASSERT_EQ(found.size(), 1U) << row.pod_template;
    EXPECT_FALSE(found[0].by_policy) << "no policy mends a template";
    EXPECT_NE(found[0].message.find(row.refused), std::string::npos) << found[0].Text();
  }
}

TEST(RequestPolicy, ImagesOfEveryContainerComeFromTheListedPlaces) {
  const JobRules rules{.image_prefixes = std::vector<std::string>{"example.com/team/"}};
  api::TrainingJobSpec spec = Spec(
      R"({"spec": {"initContainers": [{"name": "i", "image": "evil.com/x"}], "containers": [{"name": "worker", "image": "example.com/team/w"}]}})");

  EXPECT_EQ(Only(CheckRequests(spec, rules))
                .rfind("spec.worker.template.spec.initContainers[0].image is rejected ", 0),
            0U);
  spec.worker.template_json.clear();
  EXPECT_TRUE(CheckRequests(spec, rules).empty());
  spec.image = "worker:1";
  EXPECT_EQ(Only(CheckRequests(spec, rules)).rfind("spec.image is rejected ", 0), 0U);
  EXPECT_EQ(CheckRequests(Spec(), {.image_prefixes = std::vector<std::string>{}}).size(), 1U);
}

TEST(RequestPolicy, APrefixEndsWhereAPartDoes) {
  EXPECT_TRUE(IsUnderPrefix("example.com/team/a:1", "example.com/team"));
  EXPECT_TRUE(IsUnderPrefix("example.com/team:1", "example.com/team"));
  EXPECT_TRUE(IsUnderPrefix("example.com/team@sha256:0", "example.com/team"));
  EXPECT_TRUE(IsUnderPrefix("example.com/team", "example.com/team"));
  EXPECT_TRUE(IsUnderPrefix("example.com/team-b", "example.com/team-b"));
  EXPECT_FALSE(IsUnderPrefix("example.com/team-b/x", "example.com/team"));
  EXPECT_FALSE(IsUnderPrefix("example.community/x", "example.com"));
  EXPECT_FALSE(IsUnderPrefix("evil.com/example.com/x", "example.com/"));
  EXPECT_FALSE(IsUnderPrefix("x", ""));
}

TEST(RequestPolicy, APortIsAnotherRegistryAndATagNamesOneImage) {
  const struct {
    const char* image;
    const char* prefix;
    bool under;
  } table[] = {
      {"registry.example.com/a", "registry.example.com", true},
      {"registry.example.com:5000/evil", "registry.example.com", false},
      {"registry.example.com:5000/evil:1", "registry.example.com", false},
      {"registry.example.com:evil@sha256:0/x", "registry.example.com", false},
      {"registry.example.com@evil/x", "registry.example.com", false},
      {"registry.example.com:5000/a", "registry.example.com/", false},
      {"registry.example.com:5000/a:1", "registry.example.com:5000", true},
      {"registry.example.com:5000", "registry.example.com:5000", true},
      {"registry.example.com:50001/a", "registry.example.com:5000", false},
      {"registry.example.com:5000@sha256:0", "registry.example.com:5000", false},
      {"registry.example.com:5000:1/a", "registry.example.com:5000", false},
      {"example.com/app:1", "example.com/app", true},
      {"example.com/app:1@sha256:0", "example.com/app", true},
      {"example.com/app@sha256:0", "example.com/app", true},
      {"example.com/app:1/evil", "example.com/app", false},
      {"example.com/app@sha256:0/evil", "example.com/app", false},
      {"example.com/app.evil", "example.com/app", false},
      {"example.com/app_evil/x", "example.com/app", false},
      {"example.com/app:1", "example.com/app:1", true},
      {"example.com/app:1.2", "example.com/app:1", false},
      {"example.com/app:1/evil", "example.com/app:1", false},
      {"example.com/app:1@sha256:0", "example.com/app:1", false},
      {"example.com/app@sha256:01", "example.com/app@sha256:0", false},
      {"example.com/app@sha256:0", "example.com/app@sha256:0", true},
      {"example.com/app@sha256:0/x", "example.com/app@sha256:0", false},
      {"ubuntu:24.04", "ubuntu", true},
      {"ubuntu:24/evil", "ubuntu", false},
      {"ubuntu/evil:24.04", "ubuntu", false},
      {"ubuntu/good:24.04", "ubuntu/", true},
      {"localhost/a", "localhost", true},
  };
  for (const auto& [image, prefix, under] : table) {
    EXPECT_EQ(IsUnderPrefix(image, prefix), under) << image << " under " << prefix;
  }
}

TEST(RequestPolicy, ClassesAreFreeUntilTheyAreListed) {
  const std::vector<std::string> listed{"fast"};
  const std::vector<std::string> other{"kata"};
  const struct {
    const char* field;
    JobRules limited;
    JobRules allowing;
  } table[] = {
      {"priorityClassName", {.priority_classes = other}, {.priority_classes = listed}},
      {"runtimeClassName", {.runtime_classes = other}, {.runtime_classes = listed}},
  };
  for (const auto& [field, limited, allowing] : table) {
    const std::string text = std::string(R"({"spec": {")") + field + R"(": "fast"}})";
    const api::TrainingJobSpec spec = Spec(text.c_str());
    EXPECT_TRUE(CheckRequests(spec, {}).empty()) << field;
    EXPECT_TRUE(CheckRequests(spec, allowing).empty()) << field;
    const std::string refused = Only(CheckRequests(spec, limited));
    EXPECT_EQ(refused.rfind(std::string("spec.worker.template.spec.") + field + kRejected, 0), 0U);
    EXPECT_TRUE(CheckRequests(Spec(), limited).empty()) << "none is named";
    api::TrainingJobSpec of_launcher = Spec();
    of_launcher.launcher_template_json = text;
    EXPECT_EQ(Only(CheckRequests(of_launcher, limited))
                  .rfind(std::string("spec.launcher.template.spec.") + field + kRejected, 0),
              0U);
  }
  const api::TrainingJobSpec named = Spec(R"({"spec": {"runtimeClassName": "nvidia"}})");
  EXPECT_EQ(CheckRequests(named, {.runtime_classes = std::vector<std::string>{}}).size(), 1U);
}

TEST(RequestPolicy, WorkersAndGpusAreCountedOverTheWholeJob) {
  const char* eight =
      R"({"spec": {"containers": [{"name": "worker", "resources": {"limits": {"nvidia.com/gpu": "6"}}}, {"name": "side", "resources": {"requests": {"nvidia.com/mig-1g.5gb": 2}}}]}})";

  EXPECT_TRUE(CheckRequests(Spec(eight, 4), {.max_workers = 4, .max_gpus = 32}).empty());
  EXPECT_NE(Only(CheckRequests(Spec(eight, 5), {.max_workers = 5, .max_gpus = 32}))
                .find("at most 32 GPUs, but this one requests 40 (8 a worker)"),
            std::string::npos);
  const std::string refused = Only(CheckRequests(Spec("", 5), {.ns = "team-a", .max_workers = 4}));
  EXPECT_TRUE(
      refused.starts_with("spec.worker.replicas is rejected in namespace team-a, because a "
                          "job can have at most 4 workers, but this one requests 5; "))
      << refused;
  EXPECT_EQ(CheckRequests(Spec("", 1), {.max_workers = 0}).size(), 1U);
}

// The slots are derived from GPUs, so the API server cannot check the limit.
TEST(RequestPolicy, AJobHasAtMostSoManyRanks) {
  const char* eight =
      R"({"spec": {"containers": [{"name": "worker", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}})";
  api::TrainingJobSpec grows = Spec(eight, 1);
  grows.worker.max_replicas = 2049;

  EXPECT_TRUE(CheckRequests(Spec(eight, 2048), {}).empty());
  EXPECT_NE(CheckRequests(Spec(eight, 2049), {})
                .at(0)
                .Text()
                .find("spec.worker.replicas requests 16392 ranks (8 on each of 2049 workers), but "
                      "a job can have at most 16384"),
            std::string::npos);
  EXPECT_NE(CheckRequests(grows, {}).at(0).Text().find("lower spec.worker.maxReplicas"),
            std::string::npos);
  EXPECT_FALSE(CheckRequests(grows, {}).at(0).by_policy) << "no profile could allow it";
}

TEST(RequestPolicy, GpusAreCountedWhereverAJobTakesThem) {
  const JobRules rules{.max_gpus = 17};
  api::TrainingJobSpec spec = Spec();
  spec.worker.rdma["nvidia.com/gpu"] = 8;
  EXPECT_TRUE(CheckRequests(spec, rules).empty());

  spec.launcher_template_json =
      R"({"spec": {"initContainers": [{"name": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}], "containers": [{"name": "launcher", "resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}]}})";

  EXPECT_NE(
      Only(CheckRequests(spec, rules)).find("requests 18 (8 a worker and 2 for the launcher)"),
      std::string::npos);
  spec.launcher_template_json =
      R"({"spec": {"containers": [{"name": "launcher", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}})";
  EXPECT_NE(Only(CheckRequests(spec, {.max_gpus = 16}))
                .find("requests 17 (8 a worker and 1 for the launcher)"),
            std::string::npos);
}

// A container with GPUs from spec.worker.rdma does not get NVIDIA_VISIBLE_DEVICES=void.
TEST(RequestPolicy, GpusThatAreAskedForAsRdmaBringTheirVariableToTheWorkerAlone) {
  const auto refused = [](const char* name, const char* resource) {
    const std::string text = std::string(R"({"spec": {"containers": [{"name": ")") + name +
                             R"(", "envFrom": [{"configMapRef": {"name": "c"}}]}]}})";
    api::TrainingJobSpec spec = Spec(text.c_str());
    spec.worker.rdma[resource] = 1;
    return CheckRequests(spec, {.devices = {"rdma/hca"}, .max_gpus = 100}).size();
  };

  EXPECT_EQ(refused("worker", "nvidia.com/gpu"), 1U);
  EXPECT_EQ(refused("side", "nvidia.com/gpu"), 0U);
  EXPECT_EQ(refused("worker", "rdma/hca"), 0U);
}

TEST(RequestPolicy, WhereGpusAreCountedNoVariableBringsOthers) {
  const struct {
    const char* fields;
    const char* refused;  // the path in the container; empty: not rejected
  } table[] = {
      {R"("env": [{"name": "A", "value": "all"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])",
       ".env[1]"},
      {R"("env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}])",
       ".env[0]"},
      {R"("env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])",
       ".env[0]"},
      {R"("env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all,$(A) "}])", ".env[0]"},
      {R"("env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}])", ""},
      {R"("env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}])", ""},
      {R"("resources": {"limits": {"nvidia.com/gpu": 1}}, "envFrom": [{"prefix": "W_", "secretRef": {"name": "s"}}, {"configMapRef": {"name": "c"}}])",
       ".envFrom[1]"},
      {R"("resources": {"limits": {"nvidia.com/gpu": 1}}, "envFrom": [{"prefix": "NVIDIA_", "configMapRef": {"name": "c"}}])",
       ".envFrom[0]"},
      {R"("resources": {"limits": {"nvidia.com/gpu": 0}}, "envFrom": [{"configMapRef": {"name": "c"}}])",
       ""},
      {R"("envFrom": [{"configMapRef": {"name": "c"}}])", ""},
  };
  const struct {
    const char* head;
    const char* path;
  } places[] = {
      {R"({"spec": {"containers": [{"name": "worker", )", "spec.containers[0]"},
      {R"({"spec": {"containers": [{"name": "worker"}, {"name": "side", )", "spec.containers[1]"},
      {R"({"spec": {"initContainers": [{"name": "first", )", "spec.initContainers[0]"},
  };
  for (const auto& [head, path] : places) {
    for (const auto& [fields, refused] : table) {
      const std::string text = std::string(head) + fields + "}]}}";
      api::TrainingJobSpec of_launcher = Spec();
      of_launcher.launcher_template_json = text;

      for (const auto& [spec, root] : {std::pair(Spec(text.c_str()), "spec.worker.template."),
                                       std::pair(of_launcher, "spec.launcher.template.")}) {
        EXPECT_TRUE(CheckRequests(spec, {}).empty()) << text;
        const auto found = CheckRequests(spec, {.max_gpus = 100});
        if (*refused == '\0') {
          EXPECT_TRUE(found.empty()) << text;
        } else {
          EXPECT_EQ(Only(found).rfind(std::string(root) + path + refused + kRejected, 0), 0U)
              << text;
        }
      }
    }
  }
}

TEST(RequestPolicy, DevicesAreCountedByTheirNamesOverTheWholeJob) {
  const JobRules rules{.devices = {"amd.com/gpu", "rdma/hca"},
                       .max_devices = {{"amd.com/gpu", 18}, {"rdma/hca", 2}}};
  api::TrainingJobSpec spec = Spec(
      R"({"spec": {"containers": [{"name": "worker", "resources": {"limits": {"amd.com/gpu": 8}, "requests": {"amd.com/gpu": 8}}}],
                   "initContainers": [{"name": "i", "resources": {"limits": {"amd.com/gpu": "1"}}}]}})",
      2);
  spec.worker.rdma["rdma/hca"] = 1;
  EXPECT_TRUE(CheckRequests(spec, rules).empty());

  spec.launcher_template_json =
      R"({"spec": {"containers": [{"name": "launcher", "resources": {"limits": {"amd.com/gpu": 1}}}]}})";
  EXPECT_NE(
      Only(CheckRequests(spec, rules)).find("at most 18 of amd.com/gpu, but this one requests 19"),
      std::string::npos);
  spec.launcher_template_json =
      R"({"spec": {"containers": [{"name": "launcher", "resources": {"limits": {"amd.com/gpu": "1k"}}}]}})";
  EXPECT_NE(Only(CheckRequests(spec, rules)).find("must be a whole number"), std::string::npos);
  spec.launcher_template_json.clear();
  spec.worker.rdma["rdma/hca"] = 2;
  EXPECT_NE(Only(CheckRequests(spec, rules)).find("at most 2 of rdma/hca"), std::string::npos);
}

TEST(RequestPolicy, NetworkDevicesOfNvidiaAreNoGpus) {
  const auto spec = Spec(
      R"({"spec": {"containers": [{"name": "worker", "resources": {"limits": {"nvidia.com/gpu": 8, "nvidia.com/hostdev": 8}}}]}})",
      1);

  EXPECT_NE(Only(CheckRequests(spec, {.max_gpus = 8})).find("spec.allows.devices"),
            std::string::npos);
  EXPECT_TRUE(CheckRequests(spec, {.devices = {"nvidia.com/hostdev"}, .max_gpus = 8}).empty());
}

TEST(RequestPolicy, GpusThatCannotBeCountedAreRefusedWhereTheyAre) {
  for (const char* amount : {R"("1k")", R"("8e0")", "-1", "1.5", R"("99999999999999999999")"}) {
    const std::string text =
        std::string(
            R"({"spec": {"containers": [{"name": "worker", "resources": {"limits": {"nvidia.com/gpu": )") +
        amount + "}}}]}}";

    EXPECT_EQ(CheckRequests(Spec(text.c_str()), {.max_gpus = 100}).size(), 1U) << amount;
    EXPECT_TRUE(CheckRequests(Spec(text.c_str()), {}).empty()) << amount;
  }
}

}  // namespace
}  // namespace ringmaster::job
