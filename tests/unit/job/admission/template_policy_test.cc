#include "operator/job/admission/template_policy.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/json/json.h"
#include "operator/job/admission/volume_policy.h"

namespace ringmaster::job {
namespace {

struct Row {
  const char* pod_template;
  const char* path;  // path of the only violation; empty: no violation
};

const JobRules kNoRules;

std::vector<Violation> Check(const char* text, const char* managed = "worker",
                             const JobRules& rules = kNoRules) {
  const auto parsed = ParseJson(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return CheckTemplate(*parsed, "t", managed, rules);
}

// The API server's decoder accepts templates up to this depth.
TEST(TemplatePolicy, ATemplateOfTenThousandLevelsIsJudgedLikeAnyOther) {
  constexpr int kLevels = 10'000;
  std::string deep = "1";
  for (int level = 0; level < kLevels; ++level) deep = R"({"a":)" + std::move(deep) + "}";

  const auto found = Check((R"({"spec": {"affinity": )" + deep + R"(, "hostPID": true}})").c_str());

  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].path, "t.spec.hostPID");
}

std::string ListOf(int count, const std::string& item) {
  std::string list = "[" + item;
  for (int i = 1; i < count; ++i) list += "," + item;
  return list + "]";
}

// One object must not occupy the operator for minutes.
TEST(TemplatePolicy, LongListsAreRefusedAtOnce) {
  const auto many =
      Check((R"({"spec": {"initContainers": )" + ListOf(130'000, "0") + "}}").c_str());
  const auto pairs = Check((R"({"spec": {"volumes": )" + ListOf(43'000, "{}") +
                            R"(, "containers": [{"name": "worker", "volumeMounts": )" +
                            ListOf(43'000, "{}") + "}]}}")
                               .c_str());
  std::string nested = R"({"spec": {"containers": [)";
  for (int i = 0; i < 130; ++i) nested += R"({"env": )" + ListOf(900, "0") + "},";
  const auto lists = Check((nested + R"({"name": "worker"}]}})").c_str());

  const auto volumes =
      Check((R"({"spec": {"volumes": )" + ListOf(80'000, "{}") + R"(, "initContainers": )" +
             ListOf(1000, "{}") + R"(, "containers": )" + ListOf(1000, "{}") + "}}")
                .c_str());
  const auto at_limit = Check((R"({"spec": {"volumes": )" + ListOf(1000, "0") + "}}").c_str());

  ASSERT_EQ(volumes.size(), 2U);  // the other violation: no container is named "worker"
  EXPECT_EQ(volumes[0].Text(), "t.spec.volumes has 80000 items, more than 1000; shorten it");
  EXPECT_EQ(at_limit.size(), 100U) << at_limit[0].Text();
  EXPECT_EQ(at_limit[0].path, "t.spec.volumes[0]");
  ASSERT_EQ(many.size(), 1U);
  EXPECT_EQ(many[0].Text(), "t.spec.initContainers has 130000 items, more than 1000; shorten it");
  ASSERT_GE(pairs.size(), 2U);  // a list is named once for each check of it
  EXPECT_LE(pairs.size(), 4U);
  EXPECT_EQ(lists.size(), 100U);
}

TEST(TemplatePolicy, ViolationsThatNoProfileAllowsAreKeptAmongMany) {
  std::string volumes;
  for (int i = 0; i < 200; ++i) volumes += R"({"name": "h", "hostPath": {"path": "/a"}},)";
  const auto found =
      Check((R"({"spec": {"volumes": [)" + volumes + R"({"name": "h", "nfs": {}}]}})").c_str());

  ASSERT_EQ(found.size(), 101U);
  EXPECT_FALSE(found.back().by_policy);
}

TEST(TemplatePolicy, RefusesEveryRightBeyondRestrictedByItsPath) {
  const Row table[] = {
      {R"({"spec": {"hostNetwork": true}})", "t.spec.hostNetwork"},
      {R"({"spec": {"hostPID": true}})", "t.spec.hostPID"},
      {R"({"spec": {"hostIPC": true}})", "t.spec.hostIPC"},
      {R"({"spec": {"shareProcessNamespace": true}})", "t.spec.shareProcessNamespace"},
      {R"({"spec": {"automountServiceAccountToken": true}})",
       "t.spec.automountServiceAccountToken"},
      {R"({"spec": {"serviceAccountName": "x"}})", "t.spec.serviceAccountName"},
      {R"({"spec": {"serviceAccount": "x"}})", "t.spec.serviceAccount"},
      {R"({"spec": {"nodeName": "x"}})", "t.spec.nodeName"},
      {R"({"spec": {"schedulerName": "x"}})", "t.spec.schedulerName"},
      {R"({"spec": {"restartPolicy": "Always"}})", "t.spec.restartPolicy"},
      {R"({"spec": {"hostname": "x"}})", "t.spec.hostname"},
      {R"({"spec": {"os": {"name": "windows"}}})", "t.spec.os.name"},
      {R"({"spec": {"ephemeralContainers": [{"name": "x"}]}})", "t.spec.ephemeralContainers"},
      {R"({"spec": {"volumes": [{"name": "a"}, {"name": "h", "hostPath": {"path": "/"}}]}})",
       "t.spec.volumes[1].hostPath"},
      {R"({"spec": {"volumes": [{"name": "h", "nfs": {"server": "s"}}]}})",
       "t.spec.volumes[0].nfs"},
      {R"({"spec": {"volumes": [{"name": "ringmaster-x", "emptyDir": {}}]}})",
       "t.spec.volumes[0].name"},
      {R"({"spec": {"volumes": [{"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}})",
       "t.spec.volumes[0].projected.sources[0].serviceAccountToken"},
      {R"({"spec": {"volumes": [{"name": "p", "projected": {"sources": [{"podCertificate": {}}]}}]}})",
       "t.spec.volumes[0].projected.sources[0].podCertificate"},
      {R"({"spec": {"securityContext": {"runAsUser": 0}}})", "t.spec.securityContext.runAsUser"},
      {R"({"spec": {"securityContext": {"runAsNonRoot": false}}})",
       "t.spec.securityContext.runAsNonRoot"},
      {R"({"spec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}})",
       "t.spec.securityContext.seccompProfile.type"},
      {R"({"spec": {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}})",
       "t.spec.securityContext.appArmorProfile.type"},
      {R"({"spec": {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}})",
       "t.spec.securityContext.seLinuxOptions.type"},
      {R"({"spec": {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}})",
       "t.spec.securityContext.sysctls[0].name"},
      {R"({"spec": {"securityContext": {"windowsOptions": {"hostProcess": true}}}})",
       "t.spec.securityContext.windowsOptions"},
      {R"({"metadata": {"name": "x"}})", "t.metadata.name"},
      {R"({"metadata": {"ownerReferences": []}})", "t.metadata.ownerReferences"},
      {R"({"metadata": {"labels": {"ringmaster.dev/role": "x"}}})",
       "t.metadata.labels[ringmaster.dev/role]"},
      {R"({"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/worker": "unconfined"}}})",
       "t.metadata.annotations[container.apparmor.security.beta.kubernetes.io/worker]"},
      {R"({"status": {}})", "t.status"},
      {R"({"spec": {"containers": [{"name": "other"}]}})", "t.spec.containers"},
      {R"({"spec": {"containers": {"name": "worker", "securityContext": {"privileged": true}}}})",
       "t.spec.containers"},
      {R"({"spec": []})", "t.spec"},
  };
  for (const Row& row : table) {
    const auto found = Check(row.pod_template);

    ASSERT_EQ(found.size(), 1u) << row.pod_template;
    EXPECT_EQ(found[0].path, row.path) << row.pod_template;
    EXPECT_FALSE(found[0].message.empty());
  }
}

TEST(TemplatePolicy, RefusesTheSameInEveryKindOfContainer) {
  const Row table[] = {
      {R"("securityContext": {"privileged": true})", "securityContext.privileged"},
      {R"("securityContext": {"allowPrivilegeEscalation": true})",
       "securityContext.allowPrivilegeEscalation"},
      {R"("securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"]}})",
       "securityContext.capabilities.add"},
      {R"("securityContext": {"procMount": "Unmasked"})", "securityContext.procMount"},
      {R"("securityContext": {"runAsUser": 0})", "securityContext.runAsUser"},
      {R"("securityContext": {"runAsNonRoot": false})", "securityContext.runAsNonRoot"},
      {R"("ports": [{"containerPort": 1, "hostPort": 1}])", "ports[0].hostPort"},
      {R"("env": [{"name": "A", "value": "1"}, {"name": "RINGMASTER_TERM", "value": "1"}])",
       "env[1].name"},
      {R"("volumeMounts": [{"name": "v", "mountPath": "/etc/ringmaster/credentials"}])",
       "volumeMounts[0].mountPath"},
      {R"("volumeMounts": [{"name": "v", "mountPath": "/ringmaster/tools/bin"}])",
       "volumeMounts[0].mountPath"},
      {R"("volumeMounts": [{"name": "v", "mountPath": "/etc//x/../ringmaster/"}])",
       "volumeMounts[0].mountPath"},
      {R"("volumeMounts": [{"name": "ringmaster-credentials", "mountPath": "/x"}])",
       "volumeMounts[0].name"},
      {R"("volumeMounts": [{"name": "v", "mountPath": "/x", "mountPropagation": "Bidirectional"}])",
       "volumeMounts[0].mountPropagation"},
      {R"("livenessProbe": {"httpGet": {"host": "10.0.0.1", "port": 1}})",
       "livenessProbe.httpGet.host"},
      {R"("lifecycle": {"preStop": {"tcpSocket": {"host": "x", "port": 1}}})",
       "lifecycle.preStop.tcpSocket.host"},
  };
  for (const Row& row : table) {
    const std::string fields = row.pod_template;
    const struct {
      std::string text;
      std::string path;
    } kinds[] = {
        {R"({"spec": {"containers": [{"name": "worker", )" + fields + "}]}}",
         "t.spec.containers[0]."},
        {R"({"spec": {"containers": [{"name": "worker"}, {"name": "side", )" + fields + "}]}}",
         "t.spec.containers[1]."},
        {R"({"spec": {"initContainers": [{"name": "init", )" + fields + "}]}}",
         "t.spec.initContainers[0]."},
    };
    for (const auto& kind : kinds) {
      const auto found = Check(kind.text.c_str());

      ASSERT_EQ(found.size(), 1u) << kind.text;
      EXPECT_EQ(found[0].path, kind.path + row.path);
    }
  }
}

struct AllowedRow {
  const char* fields;  // fields of the Pod's spec
  JobRules rules;
  const char* item;  // the item of a profile's `allows` that the message names
};

TEST(TemplatePolicy, AProfileAllowsExactlyItsItems) {
  const AllowedRow table[] = {
      {R"("securityContext": {"runAsUser": 0})", {.root = true}, "root"},
      {R"("securityContext": {"runAsNonRoot": false})", {.root = true}, "root"},
      {R"("containers": [{"name": "worker", "securityContext": {"runAsUser": 0}}])",
       {.root = true},
       "root"},
      {R"("containers": [{"name": "worker", "securityContext": {"privileged": true}}])",
       {.privileged = true},
       "privileged"},
      {R"("containers": [{"name": "worker", "securityContext": {"allowPrivilegeEscalation": true}}])",
       {.privileged = true},
       "privileged"},
      {R"("containers": [{"name": "worker", "securityContext": {"capabilities": {"add": ["IPC_LOCK", "SYS_PTRACE"]}}}])",
       {.capabilities = {"SYS_PTRACE", "IPC_LOCK"}},
       "capabilities"},
      {R"("serviceAccountName": "trainer")", {.service_accounts = {"trainer"}}, "serviceAccounts"},
      {R"("schedulerName": "volcano")", {.schedulers = {"volcano"}}, "schedulers"},
      {R"("volumes": [{"name": "d", "hostPath": {"path": "/data/faces", "type": "Directory"}}])",
       {.host_paths = {"/data"}},
       "hostPaths"},
  };
  for (const AllowedRow& allowed : table) {
    const std::string text = std::string(R"({"spec": {)") + allowed.fields + "}}";
    for (const AllowedRow& row : table) {
      JobRules rules = row.rules;
      rules.ns = "team-a";
      const bool same_item = std::string(row.item) == allowed.item;

      const auto found = Check(text.c_str(), "worker", rules);

      ASSERT_EQ(found.size(), same_item ? 0U : 1U) << text << " under " << row.item;
      if (same_item) continue;
      EXPECT_TRUE(found[0].by_policy);
      EXPECT_NE(found[0].message.find("spec.allows." + std::string(allowed.item)),
                std::string::npos)
          << found[0].message;
    }
  }
}

TEST(TemplatePolicy, NoRulesAllowWhatReachesBeyondThem) {
  const JobRules all{.host_network = true,
                     .privileged = true,
                     .root = true,
                     .resource_claims = true,
                     .service_accounts = {"trainer"},
                     .capabilities = {"IPC_LOCK"},
                     .priority_classes = std::vector<std::string>{"system-node-critical"}};
  for (
      const char* fields :
      {R"("hostNetwork": true)", R"("hostPID": true)", R"("hostIPC": true)",
       R"("priorityClassName": "system-node-critical")",
       R"("priorityClassName": "system-cluster-critical")", R"("serviceAccountName": "other")",
       R"("serviceAccountName": "")", R"("nodeName": "n")",
       R"("automountServiceAccountToken": true)",
       R"("volumes": [{"name": "v", "hostPath": {"path": "/"}}])",
       R"("volumes": [{"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}])",
       R"("containers": [{"name": "worker", "securityContext": {"capabilities": {"add": ["IPC_LOCK", "SYS_ADMIN"]}}}])",
       R"("containers": [{"name": "worker", "securityContext": {"capabilities": {"add": "IPC_LOCK"}}}])",
       R"("containers": [{"name": "worker", "securityContext": {"procMount": "Unmasked"}}])"}) {
    const std::string text = std::string(R"({"spec": {)") + fields + "}}";

    EXPECT_EQ(Check(text.c_str(), "worker", all).size(), 1U) << text;
  }
}

TEST(TemplatePolicy, AHostsPathIsReadOnlyAndBelowOneThatIsAllowed) {
  using Texts = std::vector<std::string>;
  const JobRules rules{.host_paths = {"/data"}};
  const auto found = [&](const char* source, const char* mount) {
    const std::string text =
        std::string(R"({"spec": {"volumes": [{"name": "d", "hostPath": )") + source +
        R"(}], "containers": [{"name": "worker"}, {"name": "side", "volumeMounts": [)" + mount +
        "]}]}}";
    std::vector<std::string> paths;
    for (const Violation& violation : Check(text.c_str(), "worker", rules))
      paths.push_back(violation.path);
    return paths;
  };
  constexpr char kReadOnly[] = R"({"name": "d", "mountPath": "/d", "readOnly": true})";

  EXPECT_EQ(found(R"({"path": "/data/faces"})", kReadOnly), Texts{});
  EXPECT_EQ(found(R"({"path": "/data", "type": "File"})", ""), Texts{});
  EXPECT_EQ(
      found(
          R"({"path": "/data"})",
          R"({"name": "d", "mountPath": "/d", "readOnly": true, "recursiveReadOnly": "Enabled", "mountPropagation": "None"})"),
      Texts{});
  EXPECT_EQ(
      found(
          R"({"path": "/data"})",
          R"({"name": "d", "mountPath": "/d", "readOnly": true, "recursiveReadOnly": "Disabled"})"),
      Texts{"t.spec.containers[1].volumeMounts[0].recursiveReadOnly"});
  EXPECT_EQ(
      found(
          R"({"path": "/data"})",
          R"({"name": "d", "mountPath": "/d", "readOnly": true, "mountPropagation": "HostToContainer"})"),
      Texts{"t.spec.containers[1].volumeMounts[0].mountPropagation"});
  EXPECT_EQ(found(R"({"path": "/data"})", R"({"name": "d", "mountPath": "/d"})"),
            Texts{"t.spec.containers[1].volumeMounts[0].readOnly"});
  EXPECT_EQ(
      found(R"({"path": "/data"})", R"({"name": "d", "mountPath": "/d", "readOnly": "true"})"),
      Texts{"t.spec.containers[1].volumeMounts[0].readOnly"});
  for (const char* source : {R"({"path": "/database"})", R"({"path": "/data/../etc"})", "{}",
                             R"({"path": "/data/x", "type": "DirectoryOrCreate"})",
                             R"({"path": "/data/x", "type": "Socket"})"}) {
    EXPECT_EQ(found(source, kReadOnly), Texts{"t.spec.volumes[0].hostPath"}) << source;
  }
}

TEST(TemplatePolicy, WhatIsMountedBelowAHostsPathIsReadOnlyToo) {
  const auto restricted = [](const std::string& containers) {
    nlohmann::json spec = *ParseJson(
        R"({"volumes": [{"name": "d", "hostPath": {"path": "/data"}}, {"name": "e", "emptyDir": {}}], )" +
        containers + "}");
    RestrictHostPathMounts(spec);
    spec.erase("volumes");
    return spec;
  };
  const auto same = [](const std::string& containers) {
    return *ParseJson("{" + containers + "}");
  };

  for (const std::string list : {"initContainers", "containers"}) {
    const std::string head = '"' + list + R"(": [{"name": "a"}, {"name": "b", "volumeMounts": )";
    EXPECT_EQ(
        restricted(head + R"([{"name": "e"}, {"name": "d"}]}])"),
        same(head + R"([{"name": "e"}, {"name": "d", "recursiveReadOnly": "IfPossible"}]}])"));
    const std::string enabled = head + R"([{"name": "d", "recursiveReadOnly": "Enabled"}]}])";
    EXPECT_EQ(restricted(enabled), same(enabled));
  }
  EXPECT_EQ(restricted(R"("containers": 7)"), same(R"("containers": 7)"));
}

TEST(TemplatePolicy, AListedAccountMayBringItsToken) {
  const char* text =
      R"({"spec": {"serviceAccountName": "trainer", "volumes": [{"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}})";

  EXPECT_TRUE(Check(text, "worker", {.service_accounts = {"trainer"}}).empty());
  EXPECT_EQ(Check(text, "worker", {.service_accounts = {"other"}}).size(), 2U);
}

TEST(TemplatePolicy, KeepsTheManagedContainersProgramToItself) {
  for (const char* field : {"command", "args"}) {
    const std::string text = std::string(R"({"spec": {"containers": [{"name": "worker", ")") +
                             field + R"(": ["x"]}, {"name": "side", ")" + field + R"(": ["x"]}]}})";

    const auto found = Check(text.c_str());

    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].path, std::string("t.spec.containers[0].") + field);
  }
}

TEST(TemplatePolicy, TheLauncherGetsNoGpu) {
  const char* text =
      R"({"spec": {"containers": [{"name": "launcher", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}})";

  const auto found = Check(text, "launcher");

  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].path, "t.spec.containers[0].resources.limits[nvidia.com/gpu]");
  const char* others =
      R"({"spec": {"containers": [{"name": "launcher", "resources": {"limits": {"cpu": 1}}}, {"name": "side", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}})";
  EXPECT_TRUE(Check(others, "launcher").empty());
}

TEST(TemplatePolicy, AcceptsWhatAnOrdinaryJobNeeds) {
  const auto found = Check(R"({
    "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
    "spec": {
      "nodeSelector": {"gpu": "h200"}, "tolerations": [{"operator": "Exists"}], "priorityClassName": "high",
      "affinity": {}, "imagePullSecrets": [{"name": "x"}], "terminationGracePeriodSeconds": 60, "restartPolicy": "Never",
      "hostNetwork": false, "automountServiceAccountToken": false, "runtimeClassName": "nvidia",
      "securityContext": {"runAsUser": 2000, "fsGroup": 2000, "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
      "volumes": [{"name": "d", "configMap": {"name": "digits-idx"}}, {"name": "c", "persistentVolumeClaim": {"claimName": "x"}},
                  {"name": "p", "projected": {"sources": [{"configMap": {"name": "x"}}]}}],
      "initContainers": [{"name": "fetch", "image": "i", "command": ["sh"], "args": ["-c", "true"]}],
      "containers": [
        {"name": "worker", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 8}}, "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
         "volumeMounts": [{"name": "d", "mountPath": "/data"}, {"name": "c", "mountPath": "/etc/ringmaster-data"}],
         "securityContext": {"allowPrivilegeEscalation": false, "privileged": false, "capabilities": {"drop": ["ALL"]}}},
        {"name": "side", "image": "i", "command": ["x"], "ports": [{"containerPort": 80, "hostPort": 0}]}]}})");

  EXPECT_TRUE(found.empty()) << found.front().Text();
}

// API servers keep null fields; a null field means that the field is not set.
TEST(TemplatePolicy, WhatIsNullIsNotThere) {
  for (
      const char* text : {
          R"({"metadata": {"name": null, "labels": null}})",
          R"({"spec": {"hostPID": null, "hostNetwork": null, "restartPolicy": null, "nodeName": null}})",
          R"({"spec": {"volumes": [{"name": "v", "emptyDir": {}, "nfs": null}]}})",
          R"({"spec": {"containers": [{"name": "worker", "command": null, "args": [], "ports": [{"hostPort": null}]}]}})",
          R"({"spec": {"containers": [{"name": "worker", "securityContext": {"privileged": null, "runAsUser": null}}]}})",
      }) {
    const auto found = Check(text);
    EXPECT_TRUE(found.empty()) << found.front().Text();
  }
}

TEST(TemplatePolicy, TextsThatAreTooLongAreNotRead) {
  api::TrainingJobSpec spec;
  spec.texts = api::TrainingJobSpec::Texts::kTooLong;
  spec.longest_text = "spec.command";
  spec.worker.template_json = R"({"spec": {"hostPID": true}})";

  const auto found = CheckSpec(spec, kNoRules);

  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].path, "spec.command");
  EXPECT_NE(found[0].message.find("exceed 256 KiB"), std::string::npos) << found[0].message;
}

TEST(TemplatePolicy, ChecksBothTemplatesOfASpec) {
  api::TrainingJobSpec spec;
  spec.worker.template_json = R"({"spec": {"hostPID": true}})";
  spec.launcher_template_json = R"({"spec": {"hostIPC": true}})";

  const auto found = CheckSpec(spec, kNoRules);

  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].path, "spec.worker.template.spec.hostPID");
  EXPECT_EQ(found[1].path, "spec.launcher.template.spec.hostIPC");
}

TEST(TemplatePolicy, CheckpointsWantOneVolumeThatCanBeWritten) {
  struct CheckpointRow {
    const char* volume;
    const char* path;  // path of the only violation; empty: no violation
  };
  const CheckpointRow table[] = {
      {R"({"persistentVolumeClaim": {"claimName": "c"}})", ""},
      {R"({"ephemeral": {"volumeClaimTemplate": {}}})", ""},
      {R"({"csi": {"driver": "d"}})", ""},
      {R"({"emptyDir": {}})", ""},
      {R"({"hostPath": {"path": "/"}})", "spec.checkpoint.volume.hostPath"},
      {R"({"nfs": {"server": "s"}})", "spec.checkpoint.volume.nfs"},
      {R"({"configMap": {"name": "c"}})", "spec.checkpoint.volume.configMap"},
      {R"({"secret": {"secretName": "s"}})", "spec.checkpoint.volume.secret"},
      {R"({"name": "mine", "emptyDir": {}})", "spec.checkpoint.volume.name"},
      {R"({})", "spec.checkpoint.volume"},
      {R"({"emptyDir": {}, "csi": {"driver": "d"}})", "spec.checkpoint.volume"},
      {R"([])", "spec.checkpoint.volume"}};
  for (const CheckpointRow& row : table) {
    api::TrainingJobSpec spec;
    spec.checkpoint = api::CheckpointSpec{.volume_json = row.volume};

    const std::vector<Violation> found = CheckSpec(spec, kNoRules);

    ASSERT_EQ(found.size(), *row.path == '\0' ? 0U : 1U) << row.volume;
    if (!found.empty()) {
      EXPECT_EQ(found[0].path, row.path) << found[0].message;
    }
  }
}

TEST(TemplatePolicy, ADataCacheWantsOneVolumeThatHoldsSomething) {
  struct SourceRow {
    const char* volume;
    const char* path;  // path of the only violation; empty: no violation
  };
  const SourceRow table[] = {
      {R"({"persistentVolumeClaim": {"claimName": "c"}})", ""},
      {R"({"csi": {"driver": "d"}})", ""},
      {R"({"configMap": {"name": "c"}})", ""},
      {R"({"emptyDir": {}})", "spec.dataCache.from.emptyDir"},
      {R"({"hostPath": {"path": "/"}})", "spec.dataCache.from.hostPath"},
      {R"({"nfs": {"server": "s"}})", "spec.dataCache.from.nfs"},
      {R"({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}})",
       "spec.dataCache.from.projected.sources[0].serviceAccountToken"},
      {R"({"name": "mine", "csi": {"driver": "d"}})", "spec.dataCache.from.name"},
      {R"({})", "spec.dataCache.from"},
      {R"({"configMap": {"name": "c"}, "csi": {"driver": "d"}})", "spec.dataCache.from"},
      {R"([])", "spec.dataCache.from"}};
  for (const SourceRow& row : table) {
    api::TrainingJobSpec spec;
    spec.data_cache = api::DataCacheSpec{.from_json = row.volume, .size_limit = "1Gi"};

    const std::vector<Violation> found = CheckSpec(spec, kNoRules);

    ASSERT_EQ(found.size(), *row.path == '\0' ? 0U : 1U) << row.volume;
    if (!found.empty()) {
      EXPECT_EQ(found[0].path, row.path) << found[0].message;
    }
  }
}

TEST(TemplatePolicy, ThePathsOfOurVolumesAreTaken) {
  const auto mounted_at = [](const std::string& path) {
    const std::string text =
        R"({"spec": {"containers": [{"name": "worker", "volumeMounts": [{"name": "v", "mountPath": ")" +
        path + R"("}]}]}})";
    return Check(text.c_str());
  };
  for (const char* taken : {"/ringmaster/checkpoints/", "/ringmaster/data", "/ringmaster/data/x",
                            "/ringmaster//data-source", "/ringmaster/x/../data-source/y"}) {
    const auto found = mounted_at(taken);

    ASSERT_EQ(found.size(), 1U) << taken;
    EXPECT_EQ(found[0].path, "t.spec.containers[0].volumeMounts[0].mountPath");
  }
  EXPECT_TRUE(mounted_at("/ringmaster/database").empty());
}

}  // namespace
}  // namespace ringmaster::job
