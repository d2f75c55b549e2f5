// Tests invalid input. The API server rejects what it can check, with a message. For other invalid
// input, the operator sets a condition and creates no Pods. Problems that may go away, such as a
// full quota or a name that is in use, are reported differently.

#include <algorithm>
#include <tuple>

#include <gmock/gmock.h>

#include "tests/integration/cluster_test.h"

namespace ringmaster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ApplyTest : public ClusterTest {
 protected:
  // Applies the manifest. Returns kubectl's error message, or "" if the manifest is accepted.
  std::string Refused(const json& manifest) {
    const CommandOutput applied =
        plane().Kubectl({"apply", "-n", ns(), "-f", "-"}, manifest.dump());
    return applied.status == 0 ? "" : applied.text;
  }
  json Changed(const std::string& pointer, const json& value, const std::string& name = "digits") {
    json manifest = JobManifest(ns(), name, 2);
    manifest[json::json_pointer(pointer)] = value;
    return manifest;
  }
};

TEST_F(ApplyTest, RefusesWrongSpecsWithASentence) {
  EXPECT_THAT(Refused(Changed("/spec/worker/minReplicas", 3)),
              HasSubstr("minReplicas is above worker.replicas"));
  EXPECT_THAT(Refused(Changed("/spec/worker/maxReplicas", 1)),
              HasSubstr("replicas is above worker.maxReplicas"));
  EXPECT_THAT(Refused(Changed("/spec/worker/replicas", 0)),
              HasSubstr("spec.worker.replicas: Invalid value: 0: a job has at least 1 worker; to "
                        "run none, set spec.suspend to true"));
  EXPECT_THAT(Refused(Changed("/spec/network", {{"sshPort", 22}})), HasSubstr("at least 1024"));
  EXPECT_THAT(Refused(Changed("/spec/command", json::array())), HasSubstr("spec.command"));
  EXPECT_THAT(Refused(Changed("/spec/elasticity", {{"mode", "Elastic"}})),
              HasSubstr(R"(supported values: "InPlace", "Restart")"));
  EXPECT_THAT(Refused(Changed("/spec/elasticity", {{"mode", "Restart"}})),
              HasSubstr("cannot be Restart for ringmaster-train, which continues in place"));
  EXPECT_THAT(Refused(Changed("/spec/elasticity", {{"mode", "InPlace"}, {"allowedSizes", {1, 2}}})),
              HasSubstr("allowedSizes requires mode Restart"));
  json of_some_sizes =
      Changed("/spec/elasticity", {{"mode", "Restart"}, {"allowedSizes", {2, 4}}}, "sized");
  of_some_sizes["spec"]["command"] = {"python3", "train.py"};
  of_some_sizes["spec"]["worker"]["replicas"] = 3;
  EXPECT_THAT(Refused(of_some_sizes), HasSubstr("the job could never start"));
  of_some_sizes["spec"]["worker"]["minReplicas"] = 2;
  EXPECT_EQ(Refused(of_some_sizes), "");
  EXPECT_THAT(Refused(Changed("/spec/launchMode", "PerWorker")),
              HasSubstr("ranks that continue in place"));
  EXPECT_THAT(Refused(Changed("/spec/launchMode", "PerNode")),
              HasSubstr(R"(supported values: "PerSlot", "PerWorker")"));
  // Use create: apply would copy the manifest into an annotation, for which it is too large.
  const json long_command =
      Changed("/spec/command", std::vector<std::string>(70, std::string(4000, 'x')));
  EXPECT_THAT(plane().Kubectl({"create", "-n", ns(), "-f", "-"}, long_command.dump()).text,
              HasSubstr("at most 256 KiB"));
  json without_image = JobManifest(ns(), "digits", 1);
  without_image["spec"].erase("image");
  EXPECT_EQ(Refused(without_image), "");
  without_image["spec"]["image"] = "";
  EXPECT_THAT(Refused(without_image), HasSubstr("spec.image"));
}

TEST_F(ApplyTest, RefusesWrongFieldsOfAWorkersPod) {
  const auto refused = [this](const char* worker) {
    json manifest = JobManifest(ns(), "digits", 2);
    manifest["spec"]["worker"] = json::parse(worker);
    return Refused(manifest);
  };
  EXPECT_EQ(refused(R"({"gpus": 8, "gpuResource": "nvidia.com/mig-1g.10gb",
                        "resources": {"limits": {"memory": "64Gi", "cpu": 4}}})"),
            "");
  EXPECT_THAT(refused(R"({"gpsu": 8})"), HasSubstr("gpsu"));
  EXPECT_THAT(refused(R"({"env": [{"name": "A", "valueForm": {}}]})"), HasSubstr("valueForm"));
  EXPECT_THAT(refused(R"({"volumes": [{"name": "d", "persistantVolumeClaim": {}}]})"),
              HasSubstr("persistantVolumeClaim"));
  EXPECT_THAT(refused(R"({"volumes": [{"name": "d", "configMap": {"nam": "c"}}]})"),
              HasSubstr("configMap.nam"));
  EXPECT_THAT(refused(R"({"volumes": [{"name": "d", "emptyDir": {}, "image": {}}]})"),
              HasSubstr("spec.worker.volumes[0]: Too many"));
  EXPECT_THAT(refused(R"({"gpus": 65})"), HasSubstr("worker.gpus"));
  EXPECT_THAT(refused(R"({"gpuResource": "nvidia.com/mig-1g.10gb"})"),
              HasSubstr("worker.gpuResource requires worker.gpus"));
  EXPECT_THAT(refused(R"({"gpus": 8, "resources": {"limits": {"nvidia.com/gpu": 8}}})"),
              HasSubstr("worker.gpus and worker.resources both set GPUs; keep one of them"));
  for (const char* amount : {R"("256MB")", R"("-1Gi")", "-1", R"("")"}) {
    EXPECT_THAT(
        refused((R"({"resources": {"limits": {"memory": )" + std::string(amount) + "}}}").c_str()),
        AllOf(HasSubstr("spec.worker.resources.limits[memory]"),
              HasSubstr("not a valid amount; write for example 256Mi or 64Gi")))
        << amount;
  }
  EXPECT_EQ(refused(R"({"resources": {"limits": {"cpu": "1.5", "memory": "1e9"},
                                      "requests": {"cpu": 0, "memory": "0.5Gi"}}})"),
            "");
  EXPECT_THAT(refused(R"({"env": [{"name": "A", "value": "b",
                                   "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]})"),
              HasSubstr("either value or valueFrom"));
  EXPECT_THAT(refused(R"({"resourceClaims": [{"name": "nic"}]})"),
              HasSubstr("either resourceClaimName or resourceClaimTemplateName"));
  EXPECT_THAT(refused(R"({"envFrom": [{"prefix": "A"}]})"),
              HasSubstr("either configMapRef or secretRef"));
}

TEST_F(ApplyTest, KnowsTheVolumesThatJobsBring) {
  const json sources = json::parse(R"([
      {"persistentVolumeClaim": {"claimName": "c", "readOnly": true}},
      {"configMap": {"name": "c", "items": [{"key": "k", "path": "p", "mode": 256}],
                     "defaultMode": 420, "optional": true}},
      {"secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}], "defaultMode": 256,
                  "optional": false}},
      {"emptyDir": {}}, {"emptyDir": {"medium": "Memory", "sizeLimit": 1073741824}},
      {"csi": {"driver": "d.example.com", "readOnly": true, "fsType": "ext4",
               "volumeAttributes": {"a": "b"}, "nodePublishSecretRef": {"name": "s"}}},
      {"hostPath": {"path": "/data", "type": "Directory"}},
      {"ephemeral": {"volumeClaimTemplate": {
          "metadata": {"labels": {"a": "b"}},
          "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                   "resources": {"requests": {"storage": "1Gi"}}}}}},
      {"image": {"reference": "registry.example.com/data:1", "pullPolicy": "IfNotPresent"}},
      {"projected": {"defaultMode": 256, "sources": [{"configMap": {"name": "c"}}]}},
      {"downwardAPI": {"defaultMode": 256, "items": [
          {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}, "mode": 256},
          {"path": "cpu", "resourceFieldRef": {"containerName": "worker", "resource": "limits.cpu",
                                               "divisor": "1m"}}]}}])");
  json volumes = json::array();
  for (const json& source : sources) {
    json volume = source;
    volume["name"] = "v" + std::to_string(volumes.size());
    volumes.push_back(std::move(volume));
  }
  EXPECT_EQ(Refused(Changed("/spec/worker/volumes", volumes, "with-volumes")), "");

  for (const char* wrong :
       {R"({})", R"({"persistentVolumeClaim": {"claimname": "c"}})", R"({"pvc": {}})"}) {
    EXPECT_THAT(Refused(Changed("/spec/checkpoint", {{"volume", json::parse(wrong)}})),
                HasSubstr("spec.checkpoint.volume"))
        << wrong;
  }
}

TEST_F(ApplyTest, RefusesVolumesThatNoJobCanHave) {
  const char kNfs[] = R"({"nfs": {"server": "nfs.example.com", "path": "/data"}})";
  const char kConfigMap[] = R"({"configMap": {"name": "c"}})";
  const char kHostPath[] = R"({"hostPath": {"path": "/data"}})";
  const auto refused = [this](const char* field, const json& value) {
    return Refused(Changed(std::string("/spec/") + field, value, "with-volumes"));
  };
  json nfs = json::parse(kNfs);
  nfs["name"] = "data";
  EXPECT_THAT(refused("worker/volumes", json::array({nfs})),
              HasSubstr("the kind nfs is refused, because Pod Security"));
  EXPECT_THAT(refused("checkpoint", {{"volume", json::parse(kConfigMap)}}),
              HasSubstr("must be writable"));
  for (const char* kind : {kNfs, kHostPath}) {
    EXPECT_THAT(refused("checkpoint", {{"volume", json::parse(kind)}}),
                HasSubstr("create a PersistentVolume"));
    EXPECT_THAT(refused("dataCache", {{"from", json::parse(kind)}, {"sizeLimit", "1Gi"}}),
                HasSubstr("create a PersistentVolume"));
  }
  EXPECT_THAT(
      refused("dataCache", {{"from", {{"emptyDir", json::object()}}}, {"sizeLimit", "1Gi"}}),
      HasSubstr("empty in every new Pod"));
  for (const char* kind : {R"({"persistentVolumeClaim": {"claimName": "c"}})",
                           R"({"emptyDir": {}})", R"({"csi": {"driver": "d.example.com"}})"}) {
    EXPECT_EQ(refused("checkpoint", {{"volume", json::parse(kind)}}), "") << kind;
  }
}

TEST_F(ApplyTest, RefusesMoreRanksThanAJobMayHave) {
  json job = JobManifest(ns(), "large", 4096);
  job["spec"]["slotsPerWorker"] = 4;
  EXPECT_EQ(Refused(job), "");
  job["metadata"]["name"] = "larger";
  job["spec"]["worker"]["replicas"] = 4097;
  EXPECT_THAT(Refused(job), HasSubstr("a job can have at most 16384 ranks"));
  job["spec"]["worker"] = {{"replicas", 1}, {"maxReplicas", 4097}};
  EXPECT_THAT(Refused(job), HasSubstr("a job can have at most 16384 ranks"));
  job["spec"].erase("slotsPerWorker");
  job["spec"]["worker"]["gpus"] = 4;
  EXPECT_THAT(Refused(job), HasSubstr("a job can have at most 16384 ranks"));
}

TEST_F(ApplyTest, RefusesUnknownFields) {
  EXPECT_THAT(Refused(Changed("/spec/slotsPerWorkers", 2)),
              HasSubstr("unknown field \"spec.slotsPerWorkers\""));
}

TEST_F(ApplyTest, RefusesNamesThatItsObjectsCouldNotHave) {
  EXPECT_THAT(Refused(JobManifest(ns(), std::string(46, 'a'), 1)),
              HasSubstr("at most 45 characters"));
  EXPECT_THAT(Refused(JobManifest(ns(), "1st", 1)), HasSubstr("must start with a letter"));
  EXPECT_THAT(Refused(JobManifest(ns(), "digits.v2", 1)), HasSubstr("no dots"));
  EXPECT_THAT(Refused(JobManifest(ns(), "digits-launcher", 1)),
              HasSubstr("must not end in \"-launcher\""));
  EXPECT_THAT(Refused(JobManifest(ns(), "digits.v2", 1)),
              AllOf(HasSubstr("metadata.name: Invalid value"), Not(HasSubstr("<nil>"))));
  EXPECT_EQ(Refused(JobManifest(ns(), std::string(45, 'a'), 1)), "");
}

TEST_F(ApplyTest, ACommandInOneStringIsRecognised) {
  for (const char* program : {"python train.py", "python\ttrain.py", " a"}) {
    EXPECT_THAT(Refused(Changed("/spec/command", json::array({program, "--x"}))),
                AllOf(HasSubstr("spec.command"), HasSubstr("[python, train.py]")))
        << program;
  }
  EXPECT_EQ(Refused(Changed("/spec/command", {"sh", "-c", "python train.py"})), "");
}

TEST_F(ApplyTest, RefusesChangesOfWhatCannotChange) {
  ASSERT_EQ(Refused(JobManifest(ns(), "digits", 2)), "");
  const std::pair<const char*, json> of_a_suspended_job[] = {
      {"image", "other"},
      {"command", json::array({"other"})},
      {"slotsPerWorker", 2},
      {"elasticity", {{"mode", "InPlace"}}},
      {"mpi", {{"extraArgs", {"-v"}}}},
      {"mpi", {{"launchAgent", "Agent"}}},
      {"network", {{"interfaces", {"eth1"}}}}};
  for (const auto& [field, value] : of_a_suspended_job) {
    EXPECT_THAT(Refused(Changed("/spec/" + std::string(field), value)),
                HasSubstr("spec." + std::string(field) + " can change only while the job is"));
  }
  EXPECT_THAT(Refused(Changed("/spec/checkpoint", {{"volume", {{"emptyDir", json::object()}}}})),
              HasSubstr("spec.checkpoint cannot be added"));
  // Setting a field to its default value is not a change.
  EXPECT_EQ(Refused(Changed("/spec/mpi", {{"implementation", "OpenMPI"}, {"launchAgent", "Auto"}})),
            "");
  EXPECT_EQ(Refused(Changed("/spec/network", {{"hostNetwork", false}, {"sshPort", 0}})), "");
  EXPECT_EQ(Refused(Changed("/spec/worker/replicas", 3)), "");
}

TEST_F(ApplyTest, WhatCountsAsLostHasBoundsAndNoDefaultInTheStoredJob) {
  const auto faults = [&](const json& value) { return Changed("/spec/faultTolerance", value); };
  for (const auto& [field, low, high] :
       {std::tuple("lostAfterMilliseconds", 499, 600001), std::tuple("stallAfterSeconds", -1, 3601),
        std::tuple("loadTimeoutSeconds", 0, 86401), std::tuple("connectTimeoutSeconds", 0, 3601)}) {
    EXPECT_THAT(Refused(faults({{field, low}})), HasSubstr("greater than or equal to")) << field;
    EXPECT_THAT(Refused(faults({{field, high}})), HasSubstr("less than or equal to")) << field;
  }
  EXPECT_THAT(Refused(Changed("/spec/scheduling", {{"startWaitSeconds", 86401}})),
              HasSubstr("less than or equal to"));
  ASSERT_EQ(Refused(faults({{"stallAfterSeconds", 0}})), "");
  EXPECT_EQ(At(Job("digits"), "/spec/faultTolerance"), (json{{"stallAfterSeconds", 0}}));
}

TEST_F(ApplyTest, AJobStoresNoMpiThatNobodyNamed) {
  ASSERT_EQ(Refused(Changed("/spec/mpi", {{"passEnv", {"NCCL_DEBUG"}}})), "");
  EXPECT_EQ(At(Job("digits"), "/spec/mpi"), (json{{"passEnv", {"NCCL_DEBUG"}}}));
  EXPECT_THAT(Refused(Changed("/spec/mpi", {{"passEnv", {"A", "A"}}}, "twice")),
              HasSubstr("Duplicate value"));
}

TEST_F(ApplyTest, WhoManagesAJobIsADomainsPathAndNeverChanges) {
  EXPECT_THAT(Refused(Changed("/spec/managedBy", "kueue")),
              HasSubstr("a path that starts with a domain"));
  ASSERT_EQ(Refused(Changed("/spec/managedBy", "example.com/one", "theirs")), "");
  EXPECT_THAT(Refused(Changed("/spec/managedBy", "example.com/other", "theirs")),
              HasSubstr("spec.managedBy cannot change"));
  ASSERT_EQ(Refused(JobManifest(ns(), "ours", 1)), "");
  EXPECT_THAT(Refused(Changed("/spec/managedBy", "example.com/other", "ours")),
              HasSubstr("spec.managedBy cannot change"));
}

TEST_F(ApplyTest, ARunPolicyHasBoundsAndKeepsWhatCannotChange) {
  const auto policy = [&](const json& value) { return Changed("/spec/runPolicy", value); };
  EXPECT_THAT(Refused(policy({{"activeDeadlineSeconds", 0}})),
              HasSubstr("greater than or equal to 1"));
  EXPECT_THAT(Refused(policy({{"ttlSecondsAfterSuccess", -1}})),
              HasSubstr("greater than or equal to 0"));
  EXPECT_THAT(Refused(policy({{"cleanPodPolicy", "Some"}})), HasSubstr("cleanPodPolicy"));
  EXPECT_THAT(Refused(policy({{"restart", {{"ignoreExitCodes", {2}}}}})),
              HasSubstr("greater than or equal to 3"));
  EXPECT_THAT(
      Refused(policy({{"restart", {{"failOnExitCodes", {3, 4}}, {"ignoreExitCodes", {4}}}}})),
      HasSubstr("must not be in both"));
  ASSERT_EQ(Refused(policy({{"restart", {{"limit", 3}}}})), "");
  EXPECT_THAT(Refused(policy({{"restart", {{"limit", 4}}}})),
              HasSubstr("spec.runPolicy.restart cannot change"));
  EXPECT_EQ(Refused(policy({{"restart", {{"limit", 3}}},
                            {"activeDeadlineSeconds", 3600},
                            {"cleanPodPolicy", "All"}})),
            "");
}

TEST_F(ApplyTest, CheckpointsNeedAVolumeAndHaveDefaults) {
  EXPECT_THAT(Refused(Changed("/spec/checkpoint", {{"keep", 5}})),
              HasSubstr("spec.checkpoint.volume"));
  EXPECT_THAT(Refused(Changed("/spec/checkpoint",
                              {{"volume", {{"emptyDir", json::object()}}}, {"everySteps", 0}})),
              HasSubstr("greater than or equal to 1"));
  EXPECT_EQ(Refused(Changed("/spec/checkpoint",
                            {{"volume", {{"persistentVolumeClaim", {{"claimName", "c"}}}}}})),
            "");
}

TEST_F(ApplyTest, AJobBeginsWithOneThingThatIsOnItsVolume) {
  const json volume{{"persistentVolumeClaim", {{"claimName", "c"}}}};
  const auto from = [&](const json& what) {
    return Refused(Changed("/spec/checkpoint", {{"volume", volume}, {"restoreFrom", what}}));
  };
  EXPECT_THAT(from(json::object()), HasSubstr("restoreFrom"));
  EXPECT_THAT(from({{"job", "a"}, {"path", "b"}}), HasSubstr("restoreFrom"));
  EXPECT_THAT(from({{"job", "../a"}}), HasSubstr("restoreFrom.job"));
  for (const char* path : {"/team", "..", "a/../../b", "a/.."}) {
    EXPECT_THAT(from({{"path", path}}), HasSubstr("a folder within the volume")) << path;
  }
  EXPECT_EQ(from({{"path", "team/digits/1.1-500"}}), "");
}

TEST_F(ApplyTest, ADataCacheNeedsASourceAndASizeAndOnlyItsSourceCanChange) {
  const json claim{{"persistentVolumeClaim", {{"claimName", "faces"}}}};
  EXPECT_THAT(Refused(Changed("/spec/dataCache", {{"sizeLimit", "1Gi"}})),
              HasSubstr("spec.dataCache.from"));
  EXPECT_THAT(Refused(Changed("/spec/dataCache", {{"from", claim}})),
              HasSubstr("spec.dataCache.sizeLimit"));
  for (const json& size : {json("0"), json(0), json("-1Gi"), json("1e30"), json("1Ei")}) {
    EXPECT_THAT(Refused(Changed("/spec/dataCache", {{"from", claim}, {"sizeLimit", size}})),
                HasSubstr("write for example 140Gi"))
        << size;
  }
  for (const json& size : {json("much"), json("140GB"), json(""), json(1.5)}) {
    EXPECT_THAT(Refused(Changed("/spec/dataCache", {{"from", claim}, {"sizeLimit", size}})),
                HasSubstr("spec.dataCache.sizeLimit"))
        << size;
  }
  for (const char* path : {"/faces", "..", "a/../../b", "a/.."}) {
    EXPECT_THAT(Refused(Changed("/spec/dataCache",
                                {{"from", claim}, {"sizeLimit", "1Gi"}, {"subPath", path}})),
                HasSubstr("a folder within the volume"))
        << path;
  }
  const json cache{{"from", claim}, {"sizeLimit", "140Gi"}, {"subPath", "a..b/glint360k"}};
  ASSERT_EQ(Refused(Changed("/spec/dataCache", cache)), "");
  for (const json& same : {json("143360Mi"), json(140LL << 30), json("0.13671875Ti")}) {
    json other = cache;
    other["sizeLimit"] = same;
    EXPECT_EQ(Refused(Changed("/spec/dataCache", other)), "") << same;
  }
  for (const auto& [field, value] :
       std::map<std::string, json>{{"sizeLimit", "1Gi"}, {"subPath", "other"}}) {
    json other = cache;
    other[field] = value;
    EXPECT_THAT(Refused(Changed("/spec/dataCache", other)),
                HasSubstr("spec.dataCache cannot change"))
        << field;
  }
  // The source may change: a running job continues with the first source.
  json other = cache;
  other["from"] = {{"persistentVolumeClaim", {{"claimName", "others"}}}};
  EXPECT_EQ(Refused(Changed("/spec/dataCache", other)), "");
}

TEST_F(ApplyTest, InterfacesAreWholeNamesOfWhatIsUsedOrOfWhatIsNot) {
  for (const char* field : {"interfaces", "excludeInterfaces"}) {
    for (const char* name : {"-x", "^docker0", "=eth0", "eth0,eth1", "eth0 --mca", "10.0.0.0/8"}) {
      EXPECT_THAT(Refused(Changed("/spec/network", {{field, {"eth0", name}}})),
                  HasSubstr("the full name of one interface"))
          << field << " " << name;
    }
    EXPECT_THAT(Refused(Changed("/spec/network", {{field, {"sixteen-letters0"}}})),
                HasSubstr("may not be more than 15"));
  }
  EXPECT_THAT(Refused(Changed("/spec/network",
                              {{"interfaces", {"eth0"}}, {"excludeInterfaces", {"eth1"}}})),
              HasSubstr("keep one of them"));
  ASSERT_EQ(Refused(Changed("/spec/network", {{"interfaces", {"eth0", "bond0.100"}}})), "");
}

TEST_F(ApplyTest, RdmaDevicesAreNamedWithTheirDomain) {
  EXPECT_THAT(Refused(Changed("/spec/worker/rdma", {{"hca", 1}})),
              HasSubstr("write for example rdma/hca"));
  EXPECT_THAT(Refused(Changed("/spec/worker/rdma", {{"rdma/hca", 0}})),
              HasSubstr("greater than or equal to 1"));
  ASSERT_EQ(Refused(Changed("/spec/worker/rdma", {{"rdma/hca_shared.a", 2}})), "");
}

TEST_F(ApplyTest, AJobKeepsItsNetwork) {
  ASSERT_EQ(Refused(Changed("/spec/network", {{"interfaces", {"eth0"}}})), "");
  EXPECT_THAT(Refused(Changed("/spec/network", {{"hostNetwork", true}})),
              AllOf(HasSubstr("spec.network can change only while"), Not(HasSubstr("<nil>"))));
}

TEST_F(ApplyTest, ADataCacheHasOneSource) {
  const json two = {{"configMap", {{"name", "c"}}},
                    {"persistentVolumeClaim", {{"claimName", "f"}}}};
  EXPECT_THAT(Refused(Changed("/spec/dataCache", {{"from", two}, {"sizeLimit", "1Gi"}})),
              HasSubstr("spec.dataCache.from: Too many: 2"));
}

class RefusalTest : public ClusterTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ClusterTest::SetUp());
    StartOperator();
  }
  // Expects that the operator stalls the job, names `path` in the message, and creates no Pods.
  void ExpectRefused(const json& manifest, const char* path) {
    CreateJob(manifest);
    WaitCondition("digits", "Stalled", "True", "InvalidSpec");
    EXPECT_THAT(TextAt(Condition("digits", "Stalled"), "/message"), HasSubstr(path));
    EXPECT_TRUE(Names("pods").empty());
  }
};

// A field that ADR 9 forbids: where to set it, its value, and the path expected in the message.
struct ForbiddenItem {
  const char* pointer;
  const char* value;
  const char* path;
  bool by_profile = false;  // a profile could allow it
};

constexpr char kPod[] = "/spec/worker/template/spec";
constexpr ForbiddenItem kForbidden[] = {
    {"/hostNetwork", "true", "hostNetwork"},
    {"/hostPID", "true", "hostPID"},
    {"/hostIPC", "true", "hostIPC"},
    {"/shareProcessNamespace", "true", "shareProcessNamespace"},
    {"/nodeName", R"("node-1")", "nodeName"},
    {"/schedulerName", R"("mine")", "schedulerName", true},
    {"/serviceAccountName", R"("operator")", "serviceAccountName", true},
    {"/serviceAccount", R"("operator")", "serviceAccount"},
    {"/automountServiceAccountToken", "true", "automountServiceAccountToken"},
    {"/volumes", R"([{"name":"host","hostPath":{"path":"/"}}])", "volumes[0].hostPath", true},
    {"/volumes", R"([{"name":"t","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}])",
     "serviceAccountToken"},
    {"/securityContext", R"({"runAsUser":0})", "securityContext.runAsUser", true},
    {"/containers", R"([{"name":"worker","securityContext":{"privileged":true}}])",
     "containers[0].securityContext.privileged", true},
    {"/containers", R"([{"name":"worker","securityContext":{"allowPrivilegeEscalation":true}}])",
     "allowPrivilegeEscalation", true},
    {"/containers",
     R"([{"name":"worker","securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}}])",
     "capabilities.add", true},
    {"/containers", R"([{"name":"worker","securityContext":{"runAsUser":0}}])", "runAsUser", true},
    {"/containers", R"([{"name":"worker","ports":[{"containerPort":22,"hostPort":22}]}])",
     "hostPort"},
    {"/containers", R"([{"name":"worker","command":["sh"]}])", "containers[0].command"},
    {"/containers",
     R"([{"name":"worker"},{"name":"x","image":"x","securityContext":{"privileged":true}}])",
     "containers[1].securityContext.privileged", true},
    {"/initContainers", R"([{"name":"x","image":"x","securityContext":{"privileged":true}}])",
     "initContainers[0]", true},
    {"/containers", R"([{"name":"trainer"}])", "worker"},
};

TEST_F(RefusalTest, TemplatesThatWouldGainRightsAreNamedByTheirPathAndMakeNoPod) {
  int index = 0;
  std::vector<std::pair<std::string, ForbiddenItem>> jobs;
  for (const ForbiddenItem& item : kForbidden) {
    const std::string name = "bad-" + std::to_string(index++);
    json manifest = JobManifest(ns(), name, 1);
    manifest["spec"]["worker"]["template"] = {
        {"spec", {{"containers", json::array({{{"name", "worker"}}})}}}};
    manifest[json::json_pointer(std::string(kPod) + item.pointer)] = json::parse(item.value);
    CreateJob(manifest);
    jobs.emplace_back(name, item);
  }
  for (const auto& [name, item] : jobs) {
    const char* type = item.by_profile ? "WorkersReady" : "Stalled";
    WaitCondition(name, type, item.by_profile ? "False" : "True",
                  item.by_profile ? "RefusedByProfile" : "InvalidSpec");
    EXPECT_THAT(TextAt(Condition(name, type), "/message"), HasSubstr(item.path)) << name;
    EXPECT_THAT(TextAt(Condition(name, type), "/message"), HasSubstr("worker.template")) << name;
  }
  const auto stalled = std::count_if(std::begin(kForbidden), std::end(kForbidden),
                                     [](const ForbiddenItem& item) { return !item.by_profile; });
  WaitFor("an event for each that no profile could allow",
          [&] { return Events("InvalidSpec").size() == static_cast<std::size_t>(stalled); });
  EXPECT_TRUE(Names("pods").empty());
}

TEST_F(RefusalTest, WhatReachesTheNodeIsDeniedByDefault) {
  struct Row {
    const char* job;
    const char* group;
    const char* field;
    json value;
  };
  const Row table[] = {{"on-the-node", "network", "hostNetwork", true},
                       {"privileged", "worker", "privileged", true},
                       {"locking", "worker", "ipcLock", true},
                       {"rdma", "worker", "rdma", {{"rdma/hca", 1}}}};
  for (const Row& row : table) {
    json manifest = JobManifest(ns(), row.job, 1);
    manifest["spec"][row.group][row.field] = row.value;
    CreateJob(manifest);
  }
  for (const Row& row : table) {
    WaitCondition(row.job, "WorkersReady", "False", "RefusedByProfile");
    const std::string message = TextAt(Condition(row.job, "WorkersReady"), "/message");
    EXPECT_THAT(message, HasSubstr(std::string("spec.") + row.group + "." + row.field));
    EXPECT_THAT(message, HasSubstr("spec.allows."));
  }
  EXPECT_TRUE(Names("pods").empty());
}

class ProfileTest : public ClusterTest {
 protected:
  // Starts the operator with `spec` as the default profile of the test's namespace.
  void StartWith(json spec) {
    spec["default"] = true;
    PutProfile(ns(), std::move(spec));
    StartOperator();
  }
};

TEST_F(ProfileTest, WhatItAllowsIsWhatTheApiServerGets) {
  ASSERT_EQ(admin().Post(Path("serviceaccounts"), {{"metadata", {{"name", "trainer"}}}}).status,
            201);
  StartWith({{"allows",
              {{"hostNetwork", true},
               {"privileged", true},
               {"root", true},
               {"serviceAccounts", {"trainer"}},
               {"capabilities", {"IPC_LOCK"}},
               {"devices", {"rdma/hca"}},
               {"hostPaths", {"/data"}}}}});
  json manifest = JobManifest(ns(), "digits", 1);
  manifest["spec"]["network"] = {{"hostNetwork", true}};
  manifest["spec"]["worker"].update(
      {{"privileged", true}, {"ipcLock", true}, {"rdma", {{"rdma/hca", 1}}}});
  manifest["spec"]["worker"]["template"] = {
      {"spec", {{"serviceAccountName", "trainer"}, {"securityContext", {{"runAsUser", 0}}}}}};
  manifest["spec"]["worker"]["volumes"] =
      json::array({{{"name", "d"}, {"hostPath", {{"path", "/data/faces"}}}}});
  manifest["spec"]["worker"]["volumeMounts"] =
      json::array({{{"name", "d"}, {"mountPath", "/faces"}, {"readOnly", true}}});
  CreateJob(manifest);
  WaitFor("both Pods", [&] { return Names("pods").size() == 2; });
  const json worker = List("pods")["digits-worker-0"];
  EXPECT_EQ(At(worker, "/spec/hostNetwork"), json(true));
  EXPECT_EQ(TextAt(worker, "/spec/serviceAccountName"), "trainer");
  EXPECT_EQ(At(worker, "/spec/securityContext/runAsUser"), json(0));
  EXPECT_EQ(At(worker, "/spec/containers/0/securityContext/privileged"), json(true));
  EXPECT_EQ(At(worker, "/spec/containers/0/securityContext/capabilities/add/3"), json("IPC_LOCK"));
  EXPECT_EQ(TextAt(worker, "/spec/containers/0/resources/requests/rdma~1hca"), "1");
  EXPECT_EQ(TextAt(worker, "/spec/volumes/0/hostPath/path"), "/data/faces");
  const json launcher = List("pods")["digits-launcher-1"];
  EXPECT_EQ(At(launcher, "/spec/hostNetwork"), json());
  EXPECT_EQ(At(launcher, "/spec/containers/0/securityContext/privileged"), json());
}

TEST_F(ProfileTest, AJobIsHeldToItsNumbersAlsoWhenItIsScaled) {
  StartWith({{"limits", {{"workers", 2}, {"imagePrefixes", {"registry.example.com/"}}}}});
  StartKubelet();
  json manifest = JobManifest(ns(), "digits", 2);
  manifest["spec"]["image"] = "registry.example.com/worker:1";
  json large = manifest;
  large["metadata"]["name"] = "large";
  large["spec"]["worker"]["replicas"] = 3;
  json foreign = manifest;
  foreign["metadata"]["name"] = "foreign";
  foreign["spec"]["image"] = "registry.example.community/worker:1";
  for (const json& job : {large, foreign, manifest}) CreateJob(job);
  WaitCondition("large", "WorkersReady", "False", "RefusedByProfile");
  EXPECT_THAT(TextAt(Condition("large", "WorkersReady"), "/message"),
              HasSubstr("at most 2 workers"));
  WaitCondition("foreign", "WorkersReady", "False", "RefusedByProfile");
  EXPECT_THAT(TextAt(Condition("foreign", "WorkersReady"), "/message"), HasSubstr("spec.image"));
  WaitCondition("digits", "Running", "True");

  ASSERT_TRUE(
      admin().MergePatch(JobPath("digits"), {{"spec", {{"worker", {{"replicas", 4}}}}}}).ok());
  WaitCondition("digits", "WorkersReady", "False", "RefusedByProfile");
  EXPECT_NE(TextAt(Condition("digits", "Failed"), "/status"), "True");
  EXPECT_EQ(Names("pods").size(), 3U);
  ASSERT_TRUE(
      admin().MergePatch(JobPath("digits"), {{"spec", {{"worker", {{"replicas", 2}}}}}}).ok());
  WaitCondition("digits", "WorkersReady", "True");
}

const json kHostNetwork = json::parse(R"({"allows": {"hostNetwork": true},
    "workload": {"network": {"hostNetwork": true}, "worker": {"env": [{"name": "MARK", "value": "set"}]}}})");

TEST_F(ProfileTest, AJobWaitsForItsProfileAndKeepsWhatItSetUntilItIsResumed) {
  StartOperator();
  StartKubelet();
  json manifest = JobManifest(ns(), "digits", 2);
  manifest["spec"]["profile"] = ns();
  CreateJob(manifest);
  WaitCondition("digits", "WorkersReady", "False", "RefusedByProfile");
  EXPECT_NE(TextAt(Condition("digits", "Failed"), "/status"), "True");
  EXPECT_TRUE(Names("pods").empty());

  PutProfile(ns(), kHostNetwork);
  WaitCondition("digits", "Running", "True");
  EXPECT_EQ(At(List("pods")["digits-worker-0"], "/spec/hostNetwork"), json(true));

  // Change the profile, then delete it: running jobs continue, new jobs wait.
  json changed = kHostNetwork;
  changed["workload"]["worker"]["env"][0]["value"] = "changed";
  PutProfile(ns(), changed);
  WaitCondition("digits", "ChangePending", "True");
  kubelet().SetCutOff(true);  // the old Pod stays, so the new one gets another name
  ASSERT_TRUE(admin().Delete(Path("pods", "digits-worker-0")).ok());
  WaitFor("another worker of the same text",
          [&] { return List("pods").contains("digits-worker-2"); });
  kubelet().SetCutOff(false);
  WaitFor("the old one to go", [&] { return !List("pods").contains("digits-worker-0"); });
  EXPECT_EQ(TextAt(List("pods")["digits-worker-2"], "/metadata/labels/ringmaster.dev~1revision"),
            TextAt(List("pods")["digits-worker-1"], "/metadata/labels/ringmaster.dev~1revision"));
  ASSERT_TRUE(admin().Delete(ProfilePath(kOperatorNamespace, ns())).ok());
  WaitCondition("digits", "WorkersReady", "False", "RefusedByProfile");
  EXPECT_NE(TextAt(Condition("digits", "Failed"), "/status"), "True");
  EXPECT_EQ(Names("pods").size(), 3U);
}

TEST_F(ProfileTest, OneInAnotherNamespaceHasNoEffect) {
  json spec = kHostNetwork;
  spec["default"] = true;
  spec["namespaces"] = json::array({"*"});
  ASSERT_EQ(admin()
                .Post(ProfilePath(ns()), {{"apiVersion", "ringmaster.dev/v1alpha1"},
                                          {"kind", "TrainingProfile"},
                                          {"metadata", {{"name", "mine"}}},
                                          {"spec", spec}})
                .status,
            201);
  StartOperator();
  CreateJob("unnamed", 1);
  json named = JobManifest(ns(), "named", 1);
  named["spec"]["profile"] = "mine";
  CreateJob(named);

  WaitCondition("named", "WorkersReady", "False", "RefusedByProfile");
  WaitFor("both Pods of the other one", [&] { return Names("pods").size() == 2; });
  EXPECT_EQ(At(List("pods")["unnamed-worker-0"], "/spec/hostNetwork"), json());
}

// The operator watches the namespace in which it runs, where users could create profiles.
TEST_F(ProfileTest, InTheOperatorsOwnNamespaceOneGrantsNothing) {
  json spec = kHostNetwork;
  spec["namespaces"] = json::array({kOperatorNamespace});
  PutProfile(ns(), spec);
  StartOperator({"--no-leader-elect", std::string("--watch-namespace=") + kOperatorNamespace});
  const std::string jobs = std::string("/apis/ringmaster.dev/v1alpha1/namespaces/") +
                           kOperatorNamespace + "/trainingjobs";
  json manifest = JobManifest(kOperatorNamespace, ns(), 1);
  manifest["spec"]["profile"] = ns();
  ASSERT_EQ(admin().Post(jobs, manifest).status, 201);

  WaitFor("its refusal", [&] {
    for (const json& condition : At(admin().Get(jobs + "/" + ns()).body, "/status/conditions")) {
      if (TextAt(condition, "/reason") == "RefusedByProfile") {
        return TextAt(condition, "/message").find("in the operator's namespace") !=
               std::string::npos;
      }
    }
    return false;
  });
  EXPECT_THAT(admin().Names(std::string("/api/v1/namespaces/") + kOperatorNamespace +
                            "/pods?labelSelector=ringmaster.dev/job-name=" + ns()),
              ::testing::IsEmpty());
  EXPECT_TRUE(admin().Delete(jobs + "/" + ns()).ok());
  EXPECT_TRUE(admin().Delete(ProfilePath(kOperatorNamespace, ns())).ok());
}

TEST_F(ProfileTest, PeopleSeeThoseOfTheirNamespaceAloneAndGainNothingByWritingOne) {
  const std::string local =
      "/apis/ringmaster.dev/v1alpha1/namespaces/" + ns() + "/localtrainingprofiles";
  const auto shown = [&](const std::string& name) { return admin().Get(local + "/" + name); };
  json spec = kHostNetwork;
  spec["namespaces"] = json::array({ns(), "another-team"});
  spec["default"] = false;
  PutProfile(ns(), spec);
  PutProfile(ns() + "-others", {{"namespaces", {"another-team"}}});
  StartOperator();
  WaitFor("the profile to be shown", [&] { return shown(ns()).ok(); });
  const json object = shown(ns()).body;
  spec.erase("namespaces");
  EXPECT_EQ(At(object, "/spec"), spec);
  EXPECT_THAT(object.dump(), Not(HasSubstr("another-team")));
  EXPECT_FALSE(shown(ns() + "-others").ok());
  EXPECT_THAT(plane().Kubectl({"get", "ltp", ns(), "-n", ns()}).text,
              AllOf(HasSubstr("DEFAULT"), HasSubstr("DESCRIPTION"), HasSubstr("AGE")));

  // The operator did not create this profile, so the profile stays but does not apply to jobs.
  ASSERT_EQ(admin()
                .Post(local, {{"apiVersion", "ringmaster.dev/v1alpha1"},
                              {"kind", "LocalTrainingProfile"},
                              {"metadata",
                               {{"name", "forged"},
                                {"annotations", {{"ringmaster.dev/installation", "mine/mine"}}}}},
                              {"spec", kHostNetwork}})
                .status,
            201);
  json manifest = JobManifest(ns(), "digits", 1);
  manifest["spec"]["profile"] = "forged";
  CreateJob(manifest);
  WaitCondition("digits", "WorkersReady", "False", "RefusedByProfile");
  EXPECT_TRUE(Names("pods").empty());
  EXPECT_TRUE(shown("forged").ok());

  ASSERT_TRUE(
      admin().MergePatch(local + "/" + ns(), {{"spec", {{"limits", {{"gpus", 800}}}}}}).ok());
  WaitFor("the edit to be put right", [&] { return At(shown(ns()).body, "/spec") == spec; });
  ASSERT_TRUE(admin()
                  .MergePatch(ProfilePath(kOperatorNamespace, ns()),
                              {{"spec", {{"namespaces", {"another-team"}}}}})
                  .ok());
  WaitFor("what is for others to go", [&] { return shown(ns()).status == 404; });

  // An operator for a single namespace does not watch Namespaces.
  std::vector<std::string> flags = kPatientLease;
  flags.push_back("--watch-namespace=" + ns());
  StartOperator(flags);
  PutProfile(ns(), kHostNetwork);
  WaitFor("the profile to be shown again", [&] { return shown(ns()).ok(); });
}

TEST_F(ProfileTest, EachSaysWhetherJobsCanUseIt) {
  const auto accepted = [&](const std::string& name) {
    const json& status = At(admin().Get(ProfilePath(kOperatorNamespace, name)).body, "/status");
    return TextAt(status, "/conditions/0/type") + "=" + TextAt(status, "/conditions/0/status") +
           " " + TextAt(status, "/conditions/0/reason") + " of " +
           TextAt(status, "/observedGeneration");
  };
  const auto wait = [&](const std::string& name, const std::string& words) {
    WaitFor(name + " to say " + words, [&] { return accepted(name) == words; });
  };
  const std::string other = ns() + "-other";
  ASSERT_EQ(admin()
                .Post(ProfilePath(ns()), {{"apiVersion", "ringmaster.dev/v1alpha1"},
                                          {"kind", "TrainingProfile"},
                                          {"metadata", {{"name", "elsewhere"}}},
                                          {"spec", {{"namespaces", {ns()}}}}})
                .status,
            201);
  StartWith(json::object());
  wait(ns(), "Accepted=True Accepted of 1");

  PutProfile(other, {{"default", true}});
  wait(ns(), "Accepted=False DefaultConflict of 1");
  wait(other, "Accepted=False DefaultConflict of 1");

  // The API server does not validate the content of templates.
  PutProfile(other, json::parse(R"({"workload": {"worker": {"template": {"spec": {
                                        "securityContext": {"runAsUser": 0}}}}}})"));
  wait(ns(), "Accepted=True Accepted of 1");
  wait(other, "Accepted=False NotCovered of 2");
  const std::string table =
      plane().Kubectl({"-n", kOperatorNamespace, "get", "tp", other, "-o", "wide"}).text;
  EXPECT_THAT(table, HasSubstr("ACCEPTED"));
  EXPECT_THAT(table, HasSubstr("NotCovered"));

  // The operator writes once for each change: it does not react to its own writes.
  RunJob("digits", 1);
  int writes = 0;
  for (const ProxiedRequest& request : proxy().Requests()) {
    if (request.method == "PATCH" && request.Path().ends_with(ns() + "/status")) ++writes;
  }
  EXPECT_EQ(writes, 3);
  EXPECT_EQ(At(admin().Get(ProfilePath(ns(), "elsewhere")).body, "/status"), json());
  ASSERT_TRUE(admin().Delete(ProfilePath(kOperatorNamespace, other)).ok());
}

TEST_F(ProfileTest, AMistakeInATemplateIsSaidOfTheProfileAndNoJobBeginsUnderIt) {
  const auto accepted = [&](const std::string& name) {
    const json& status = At(admin().Get(ProfilePath(kOperatorNamespace, name)).body, "/status");
    return TextAt(status, "/conditions/0/reason") + ": " + TextAt(status, "/conditions/0/message");
  };
  const auto put = [&](const std::string& name, const std::string& role, const std::string& spec) {
    PutProfile(name, {{"workload", {{role, {{"template", {{"spec", json::parse(spec)}}}}}}}});
  };
  const struct {
    const char* name;
    const char* role;
    const char* spec;
    const char* says;
  } table[] = {
      {"field", "worker", R"({"nodeSelektor": {"a": "b"}})",
       "unknown field \"spec.workload.worker.template.spec.nodeSelektor\""},
      {"quantity", "worker",
       R"({"containers": [{"name": "worker", "resources": {"limits": {"memory": "4Gb"}}}]})",
       "spec.workload.worker.template.spec.containers[0].resources.limits.memory is \"4Gb\""},
      {"value", "worker", R"({"tolerations": [{"key": "a", "effect": "NoSchedul"}]})",
       "spec.workload.worker.template.spec.tolerations[0].effect"},
      {"launcher", "launcher", R"({"dnsPolicy": "Never"})",
       "spec.workload.launcher.template.spec.dnsPolicy"},
      {"class", "worker", R"({"priorityClassName": "absent", "dnsPolicy": "Never"})",
       "spec.workload.worker.template.spec.dnsPolicy"},
      // The job's template adds the fields that are missing here.
      {"part", "worker", R"({"containers": [
           {"name": "worker", "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "resources": {"limits": {"hugepages-2Mi": "4Mi"}}}, {"name": "side"}]})",
       nullptr},
  };
  StartOperator();
  StartKubelet();
  for (const auto& row : table) put(row.name, row.role, row.spec);
  for (const auto& row : table) {
    WaitFor(std::string("what is said of the profile ") + row.name, [&] {
      const std::string said = accepted(row.name);
      return row.says == nullptr
                 ? said.starts_with("Accepted: ")
                 : said.starts_with("PodsRefused: ") && said.find(row.says) != std::string::npos;
    });
  }

  const auto listed = [&](const std::string& name) {
    return admin()
        .Get("/apis/ringmaster.dev/v1alpha1/namespaces/" + ns() + "/localtrainingprofiles/" + name)
        .ok();
  };
  WaitFor("people to see those alone that can be used",
          [&] { return listed("part") && !listed("field") && !listed("value"); });

  json manifest = JobManifest(ns(), "digits", 1);
  manifest["spec"]["profile"] = "field";
  CreateJob(manifest);
  WaitCondition("digits", "WorkersReady", "False", "RefusedByProfile");
  EXPECT_THAT(TextAt(Condition("digits", "WorkersReady"), "/message"),
              AllOf(HasSubstr("TrainingProfile \"field\""), HasSubstr("nodeSelektor")));
  EXPECT_TRUE(Names("pods").empty());

  put("field", "worker", R"({"nodeSelector": {"a": "b"}})");
  WaitCondition("digits", "Running", "True");
  WaitFor("the corrected one to be listed", [&] { return listed("field"); });
  for (const auto& row : table) {
    EXPECT_TRUE(admin().Delete(ProfilePath(kOperatorNamespace, row.name)).ok());
  }
}

TEST_F(ProfileTest, SaysWhichOfItsNamespacesDoNotExist) {
  const std::string name = ns() + "-names";
  const std::string absent = ns() + "-absent";
  const auto message = [&] {
    return TextAt(admin().Get(ProfilePath(kOperatorNamespace, name)).body,
                  "/status/conditions/0/message");
  };
  StartOperator();
  PutProfile(name, {{"namespaces", {ns(), absent}}});
  WaitFor("the one that is missing to be named",
          [&] { return message().find("(" + absent + ")") != std::string::npos; });
  ASSERT_TRUE(admin().Post("/api/v1/namespaces", {{"metadata", {{"name", absent}}}}).ok());
  WaitFor("it to be there", [&] { return message().find(absent) == std::string::npos; });
  ASSERT_TRUE(admin().Delete(ProfilePath(kOperatorNamespace, name)).ok());
}

TEST_F(ProfileTest, WhatIsWrongInOneIsRefusedAtApply) {
  const struct {
    const char* spec;
    const char* field;
  } table[] = {
      {R"({"namespaces": ["*", "team-a"]})", "spec.namespaces"},
      {R"({"namespaces": ["team-*"]})", "the full name of a namespace"},
      {R"({"default": true})", "spec.default"},
      {R"({"allows": {"capabilities": ["CAP_IPC_LOCK"]}})", "in capitals and without"},
      {R"({"allows": {"capabilities": ["ipc_lock"]}})", "in capitals and without"},
      {R"({"allows": {"hostPaths": ["/data/../etc"]}})", "spec.allows.hostPaths"},
      {R"({"allows": {"hostPaths": ["/"]}})", "a path in allows.hostPaths must start with"},
      {R"({"allows": {"hostPaths": ["data"]}})", "a path in allows.hostPaths must start with"},
      {R"({"allows": {"hostPID": true}})", "spec.allows.hostPID"},
      {R"({"limits": {"workers": 0}})", "spec.limits.workers"},
      {R"({"workload": {"worker": {"replicas": 4}}})", "spec.workload.worker.replicas"},
      {R"({"workload": {"command": ["x"]}})", "spec.workload.command"},
      {R"({"workload": {"worker": {"volumes": [{"name": "d", "nfs": {"server": "s", "path": "/p"}}]}}})",
       "the kind nfs is refused"},
      {R"({"workload": {"worker": {"env": [{"name": "A"}, {"name": "A"}]}}})",
       "spec.workload.worker.env"},
      {R"({"limits": {"devices": {"rdma/hca": -1}}})", "spec.limits.devices"},
      {R"({"overridable": ["spec.worker.env"]})", "spec.overridable"},
      {R"({"overridable": ["workers.env"]})", "spec.overridable"},
      {R"({"overridable": ["worker.nodeSelektor"]})", "spec.overridable"},
      {R"({"overridable": ["worker.replicas"]})", "spec.overridable"},
      {R"({"overridable": ["network.hostNetwork"]})", "spec.overridable"},
      {R"({"workload": {"network": {"hostNetwork": true}}})", "allows.hostNetwork is not"},
      {R"({"workload": {"worker": {"privileged": true}}, "allows": {"privileged": true}})",
       "allows.root are not"},
      {R"({"workload": {"worker": {"ipcLock": true}}})", "does not list IPC_LOCK"},
      {R"({"workload": {"worker": {"rdma": {"rdma/hca": 1, "nvidia.com/gpu": 1}}}, "allows": {"devices": ["a/b"]}})",
       "allows.devices does not list"},
  };
  for (const auto& [spec, field] : table) {
    const Response refused =
        admin().Post(ProfilePath(kOperatorNamespace) + "?fieldValidation=Strict&dryRun=All",
                     {{"apiVersion", "ringmaster.dev/v1alpha1"},
                      {"kind", "TrainingProfile"},
                      {"metadata", {{"name", "wrong"}}},
                      {"spec", json::parse(spec)}});
    EXPECT_FALSE(refused.ok()) << spec;
    EXPECT_THAT(refused.body.dump(), HasSubstr(field)) << spec;
  }
}

TEST_F(RefusalTest, AJobsNetworkPoliciesAreThoseTheServerTakes) {
  CreateJob("digits", 2);
  WaitCondition("digits", "NetworkIsolated", "True", "PoliciesCreated");
  const std::string policies =
      "/apis/networking.k8s.io/v1/namespaces/" + ns() + "/networkpolicies/";
  const std::string name = "digits-" + JobUid("digits").substr(0, 8);
  const json job_policy = admin().Get(policies + name).body;
  EXPECT_EQ(TextAt(job_policy, "/metadata/ownerReferences/0/uid"), JobUid("digits"));
  const json launcher = admin().Get(policies + name + "-launcher").body;
  EXPECT_EQ(TextAt(launcher,
                   "/spec/ingress/0/from/0/namespaceSelector/matchLabels/"
                   "kubernetes.io~1metadata.name"),
            kOperatorNamespace);
  EXPECT_EQ(At(launcher, "/spec/ingress/0/ports/0/port"), json(8471));
}

TEST_F(RefusalTest, TheLaunchersTemplateIsHeldToTheSameRules) {
  json manifest = JobManifest(ns(), "digits", 1);
  manifest["spec"]["launcher"] = {{"template", {{"spec", {{"hostNetwork", true}}}}}};
  ExpectRefused(manifest, "launcher.template.spec.hostNetwork");
}

TEST_F(RefusalTest, AWorkersVolumeOfCheckpointsIsOneThatTheServerTakes) {
  json manifest = JobManifest(ns(), "digits", 1);
  manifest["spec"]["checkpoint"] = {
      {"volume", {{"persistentVolumeClaim", {{"claimName", "checkpoints"}}}}}};
  CreateJob(manifest);
  WaitFor("both Pods", [&] { return Names("pods").size() == 2; });
}

TEST_F(RefusalTest, TheDataCachesSourceIsHeldToTheSameRules) {
  json manifest = JobManifest(ns(), "digits", 1);
  manifest["spec"]["dataCache"] = json::parse(
      R"({"from": {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
          "sizeLimit": "1Gi"})");
  ExpectRefused(manifest, "spec.dataCache.from.projected.sources[0].serviceAccountToken");
}

TEST_F(RefusalTest, AWorkerWithADataCacheIsOneThatTheServerTakes) {
  json manifest = JobManifest(ns(), "digits", 1);
  manifest["spec"]["dataCache"] = {{"from", {{"persistentVolumeClaim", {{"claimName", "faces"}}}}},
                                   {"subPath", "glint360k"},
                                   {"sizeLimit", "1.5Gi"}};
  CreateJob(manifest);
  WaitFor("both Pods", [&] { return Names("pods").size() == 2; });
}

TEST_F(RefusalTest, WhatTheServerRefusesOfATemplateIsNamedAsTheUserWroteIt) {
  const auto job = [&](const std::string& name, const json& container) {
    json manifest = JobManifest(ns(), name, 1);
    json worker = container;
    worker["name"] = "worker";
    manifest["spec"]["worker"]["template"] = {{"spec", {{"containers", json::array({worker})}}}};
    CreateJob(manifest);
    WaitCondition(name, "Failed", "True", "InvalidSpec");
    return TextAt(Condition(name, "Failed"), "/message");
  };
  const std::string path = "spec.worker.template.spec.containers[0].";
  EXPECT_THAT(job("mount", {{"volumeMounts", {{{"name", "data"}, {"mountPath", "/d"}}}}}),
              HasSubstr(path + "volumeMounts[0].name: Not found: \"data\""));
  EXPECT_THAT(job("unknown", {{"imagePullpolicy", "Always"}}),
              HasSubstr("unknown field \"" + path + "imagePullpolicy\""));
  EXPECT_THAT(
      job("size", {{"resources", {{"limits", {{"memory", "256MB"}}}}}}),
      HasSubstr(path + "resources.limits.memory is \"256MB\", which is not a valid quantity"));
}

// The test sends the kubelet's Events, because a Pod's status does not say what its volumes lack.
TEST_F(RefusalTest, WhatKeepsAPodFromStartingIsNamedFromItsOwnEvents) {
  CreateJob("digits", 1);
  WaitFor("the worker's Pod", [&] { return List("pods").contains("digits-worker-0"); });
  const json pod = List("pods")["digits-worker-0"];
  ASSERT_TRUE(admin()
                  .Post(Path("pods", "digits-worker-0") + "/binding",
                        {{"apiVersion", "v1"},
                         {"kind", "Binding"},
                         {"metadata", {{"name", "digits-worker-0"}}},
                         {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", "n1"}}}})
                  .ok());
  const auto tell = [&](const std::string& name, const json& uid, const std::string& message) {
    return admin().Post(
        Path("events"),
        {{"metadata", {{"name", name}}},
         {"involvedObject",
          {{"kind", "Pod"}, {"namespace", ns()}, {"name", "digits-worker-0"}, {"uid", uid}}},
         {"type", "Warning"},
         {"reason", "FailedMount"},
         {"message", message},
         {"source", {{"component", "kubelet"}}},
         {"lastTimestamp", "2026-11-20T10:00:00Z"}});
  };
  ASSERT_TRUE(tell("of-another", "other-uid", "not this one").ok());
  ASSERT_TRUE(tell("of-the-pod", At(pod, "/metadata/uid"),
                   "MountVolume.SetUp failed for volume \"d\" : configmap \"data\" not found")
                  .ok());

  WaitCondition("digits", "WorkersReady", "False", "PodNotStarting");
  EXPECT_THAT(
      TextAt(Condition("digits", "WorkersReady"), "/message"),
      HasSubstr("digits-worker-0 on node n1 does not start: FailedMount: "
                "MountVolume.SetUp failed for volume \"d\" : configmap \"data\" not found"));
  const auto questions = [&] {
    const auto requests = proxy().Requests();
    return std::count_if(requests.begin(), requests.end(), [&](const ProxiedRequest& request) {
      return request.method == "GET" && request.Path().ends_with("/events");
    });
  };
  EXPECT_LE(questions(), 3);
}

TEST_F(RefusalTest, AWorkersFieldsComeIntoItsPodAndAreRefusedByTheirOwnNames) {
  StartKubelet();
  json good = JobManifest(ns(), "good", 1);
  good["spec"]["worker"]["env"] = {{{"name", "A"}, {"value", "b"}}};
  good["spec"]["worker"]["nodeSelector"] = {{"a", "b"}};
  good["spec"]["imagePullSecrets"] = {{{"name", "registry"}}};
  json twice = good;
  twice["metadata"]["name"] = "twice";
  twice["spec"]["worker"]["template"] = {{"spec", {{"nodeSelector", {{"a", "b"}}}}}};
  for (const json& manifest : {good, twice}) CreateJob(manifest);

  WaitCondition("twice", "Stalled", "True", "InvalidSpec");
  EXPECT_THAT(TextAt(Condition("twice", "Stalled"), "/message"),
              HasSubstr("spec.worker.nodeSelector is also set as "
                        "spec.worker.template.spec.nodeSelector; keep one of them"));
  const std::string path = Path("pods", "good-worker-0");
  WaitFor("a worker", [&] { return admin().Get(path).status == 200; });
  const json worker = admin().Get(path).body;
  EXPECT_EQ(TextAt(worker, "/spec/containers/0/env/0/name"), "A");
  EXPECT_EQ(TextAt(worker, "/spec/nodeSelector/a"), "b");
  EXPECT_EQ(TextAt(worker, "/spec/imagePullSecrets/0/name"), "registry");
}

TEST_F(RefusalTest, AJobThatCannotBeRunWaitsForItsCorrectionAndThenRuns) {
  StartKubelet();
  json manifest = JobManifest(ns(), "digits", 1);
  manifest["spec"]["worker"]["template"] = {{"spec", {{"hostPID", true}}}};
  CreateJob(manifest);
  WaitCondition("digits", "Stalled", "True", "InvalidSpec");
  EXPECT_THAT(TextAt(Condition("digits", "Stalled"), "/message"), HasSubstr("hostPID"));
  EXPECT_EQ(TextAt(Condition("digits", "Reconciling"), "/status"), "False");
  EXPECT_EQ(Condition("digits", "Failed"), json());
  EXPECT_TRUE(Names("pods").empty());

  const Response corrected = admin().MergePatch(
      JobPath("digits"),
      {{"spec", {{"worker", {{"template", {{"spec", {{"hostPID", nullptr}}}}}}}}}});

  ASSERT_TRUE(corrected.ok()) << corrected.Text();
  WaitCondition("digits", "Running", "True");
  EXPECT_EQ(Condition("digits", "Stalled"), json());
}

TEST_F(RefusalTest, AnUnknownFieldOfATemplateIsInvalid) {
  json manifest = JobManifest(ns(), "digits", 1);
  manifest["spec"]["worker"]["template"] = {{"spec", {{"tolerationz", json::array()}}}};
  CreateJob(manifest);
  WaitCondition("digits", "Failed", "True", "InvalidSpec");
  EXPECT_THAT(TextAt(Condition("digits", "Failed"), "/message"), HasSubstr("tolerationz"));
}

// The API server's message contains the label, so the message is too long for the job's status.
TEST_F(RefusalTest, ALongLabelInATemplateIsSaidInTheCondition) {
  json manifest = JobManifest(ns(), "big", 1);
  manifest["spec"]["worker"]["template"] = {
      {"metadata", {{"labels", {{"note", std::string(200 << 10, 'x')}}}}}};
  CreateJob(manifest);

  WaitCondition("big", "Failed", "True", "InvalidSpec");

  const std::string message = TextAt(Condition("big", "Failed"), "/message");
  EXPECT_THAT(message, HasSubstr("labels"));
  EXPECT_LE(message.size(), 4096U);
  WaitFor("the launcher to go", [&] { return Names("pods").empty(); });
}

TEST_F(RefusalTest, AFullQuotaIsSaidAndTheJobStartsWhenThereIsRoom) {
  const auto quota = [](const char* pods) {
    return json{{"spec", {{"hard", {{"pods", pods}}}}}, {"status", {{"hard", {{"pods", pods}}}}}};
  };
  json manifest = quota("1");
  manifest["metadata"] = {{"name", "pods"}};
  ASSERT_EQ(admin().Post(Path("resourcequotas"), manifest).status, 201);
  // Set the quota's status, which admission reads, as the quota controller would.
  ASSERT_TRUE(admin()
                  .MergePatch(Path("resourcequotas", "pods") + "/status",
                              {{"status", {{"hard", {{"pods", "1"}}}, {"used", {{"pods", "0"}}}}}})
                  .ok());
  StartKubelet();
  CreateJob("digits", 2);
  WaitCondition("digits", "WorkersReady", "False", "QuotaExceeded");
  EXPECT_NE(TextAt(Condition("digits", "Failed"), "/status"), "True");
  EXPECT_THAT(TextAt(Condition("digits", "WorkersReady"), "/message"), HasSubstr("exceeded quota"));
  ASSERT_TRUE(
      admin()
          .MergePatch(Path("resourcequotas", "pods"), {{"spec", {{"hard", {{"pods", "9"}}}}}})
          .ok());
  ASSERT_TRUE(admin()
                  .MergePatch(Path("resourcequotas", "pods") + "/status",
                              {{"status", {{"hard", {{"pods", "9"}}}}}})
                  .ok());
  WaitFor(
      "the job to start after the quota was raised",
      [&] { return TextAt(Condition("digits", "Running"), "/status") == "True"; },
      std::chrono::seconds(180));
}

TEST_F(RefusalTest, ATakenNameIsAConflictAndNothingForeignIsTouched) {
  ASSERT_EQ(admin()
                .Post(Path("services"), {{"metadata", {{"name", "digits"}}},
                                         {"spec", {{"ports", json::array({{{"port", 80}}})}}}})
                .status,
            201);
  const std::string uid = TextAt(List("services")["digits"], "/metadata/uid");
  CreateJob("digits", 1);
  WaitFor("NameConflict", [&] {
    for (const json& condition : At(Job("digits"), "/status/conditions")) {
      if (TextAt(condition, "/reason") == "NameConflict") return true;
    }
    return false;
  });
  EXPECT_EQ(TextAt(List("services")["digits"], "/metadata/uid"), uid);
  EXPECT_TRUE(Names("pods").empty());
  StartKubelet();
  ASSERT_TRUE(admin().Delete(Path("services", "digits")).ok());
  WaitFor(
      "the job to start when the name is free",
      [&] { return TextAt(Condition("digits", "Running"), "/status") == "True"; },
      std::chrono::seconds(180));
}

}  // namespace
}  // namespace ringmaster::testing
