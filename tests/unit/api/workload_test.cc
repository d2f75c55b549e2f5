#include "operator/api/workload.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/api/codec.h"
#include "operator/kube/json_access.h"

namespace ringmaster::api {
namespace {

using nlohmann::json;

// Returns a job's spec that consists of `spec`, an image and a command.
TrainingJobSpec JobSpec(const json& spec) {
  json object{{"metadata", {{"name", "d"}, {"uid", "u"}}},
              {"spec", {{"image", "i"}, {"command", {"x"}}}}};
  object["spec"].update(spec);
  return DecodeTrainingJob(object)->spec;
}

TrainingJobSpec Merge(const char* own, const char* under,
                      const std::vector<std::string>& overridable = {}) {
  const auto workload = DecodeWorkload(json::parse(under), overridable);
  EXPECT_TRUE(workload.ok()) << under;
  return MergeWorkload(JobSpec(json::parse(own)), *workload);
}

// Returns the result of merging `under` into the spec `own`, without image and command.
json Merged(const char* own, const char* under, const std::vector<std::string>& overridable = {}) {
  return EncodeRunSpec(Merge(own, under, overridable));
}
json Expected(const char* spec) { return EncodeRunSpec(JobSpec(json::parse(spec))); }

TEST(Workload, SetsWhatTheJobLeavesUnset) {
  constexpr char kAll[] = R"({
    "priorityClassName": "low", "imagePullSecrets": [{"name": "s"}],
    "worker": {"privileged": true, "ipcLock": true, "rdma": {"rdma/hca": 1}, "nodeSelector": {"a": "b"},
               "tolerations": [{"key": "gpu"}], "env": [{"name": "A", "value": "1"}], "workingDir": "/w",
               "volumes": [{"name": "v", "emptyDir": {}}], "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    "launcher": {"template": {"spec": {"nodeSelector": {"c": "d"}}}},
    "mpi": {"passEnv": ["A"], "extraArgs": ["--tag-output"]},
    "network": {"hostNetwork": true, "interfaces": ["ib0"], "sshPort": 2222},
    "faultTolerance": {"lostAfterMilliseconds": 5000}, "scheduling": {"startWaitSeconds": 60}})";

  EXPECT_EQ(Merged("{}", kAll), Expected(kAll));
  EXPECT_EQ(Merged(kAll, "{}"), Expected(kAll));
  EXPECT_EQ(Merged(kAll, kAll), Expected(kAll)) << "the same from both does not conflict";
}

TEST(Workload, MapsMergeByKeyAndTheProfileWinsUnlessItYields) {
  constexpr char kOwn[] =
      R"({"priorityClassName": "mine", "worker": {"nodeSelector": {"a": "1", "b.c/d": "1"},
    "resources": {"limits": {"cpu": 1}}}})";
  constexpr char kUnder[] =
      R"({"priorityClassName": "low", "worker": {"nodeSelector": {"b.c/d": "2", "e": "2"},
    "resources": {"limits": {"cpu": 2, "memory": "1Gi"}}}})";

  EXPECT_EQ(Merged(kOwn, kUnder), Expected(R"({"priorityClassName": "low",
    "worker": {"nodeSelector": {"a": "1", "b.c/d": "2", "e": "2"}, "resources": {"limits": {"cpu": 2, "memory": "1Gi"}}}})"));
  constexpr char kYielded[] = R"({"priorityClassName": "mine",
    "worker": {"nodeSelector": {"a": "1", "b.c/d": "1", "e": "2"}, "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}})";
  EXPECT_EQ(
      Merged(kOwn, kUnder,
             {"priorityClassName", "worker.nodeSelector[b.c/d]", "worker.resources.limits.cpu"}),
      Expected(kYielded));
  EXPECT_EQ(Merged(kOwn, kUnder, {"priorityClassName", "worker"}), Expected(kYielded));
  EXPECT_EQ(
      Merged(kOwn, kUnder,
             {"priorityClassName", "worker[nodeSelector][b.c/d]", "worker.resources[limits][cpu]"}),
      Expected(kYielded));
  EXPECT_NE(Merged(kOwn, kUnder, {"priorityClassNames", "worker.node", "work", ""}),
            Expected(kYielded));
}

TEST(Workload, ListsMergeByNameAndAFieldMeetsATemplate) {
  constexpr char kOwn[] = R"({"worker": {"template": {"spec": {"containers": [
      {"name": "log", "image": "l"},
      {"name": "worker", "env": [{"name": "A", "value": "mine"}, {"name": "B", "value": "mine"}, {"name": "A", "value": "again"}],
       "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}},
    "tolerations": [{"key": "mine"}], "volumes": [{"name": "v", "emptyDir": {}}]}})";
  constexpr char kUnder[] = R"({"worker": {
    "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}, {"name": "C", "value": "theirs"}],
    "tolerations": [{"key": "theirs"}, {"key": "mine"}],
    "volumes": [{"name": "w", "emptyDir": {}}, {"name": "v", "configMap": {"name": "c"}}],
    "volumeMounts": [{"name": "w", "mountPath": "/w"}, {"name": "w", "mountPath": "/v"}]}})";

  const auto spec_of = [](const TrainingJobSpec& spec) {
    return json::parse(spec.worker.template_json)["spec"];
  };
  const json spec = spec_of(Merge(kOwn, kUnder));
  EXPECT_EQ(spec["containers"][0], (json{{"name", "log"}, {"image", "l"}}));
  EXPECT_EQ(spec["containers"][1]["env"], json::parse(R"([
    {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}, {"name": "C", "value": "theirs"}, {"name": "B", "value": "mine"}])"))
      << "a variable of the job may refer to one of the profile";
  EXPECT_EQ(spec["containers"][1]["volumeMounts"],
            json::parse(R"([{"name": "w", "mountPath": "/v"}, {"name": "w", "mountPath": "/w"}])"));
  EXPECT_EQ(spec["tolerations"], json::parse(R"([{"key": "mine"}, {"key": "theirs"}])"));
  EXPECT_EQ(
      spec["volumes"],
      json::parse(R"([{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "emptyDir": {}}])"));

  const json yielded = spec_of(Merge(kOwn, kUnder, {"worker.env[A]", "worker.volumes"}));
  EXPECT_EQ(yielded["containers"][1]["env"][0], json::parse(R"({"name": "A", "value": "mine"})"));
  EXPECT_EQ(yielded["volumes"][0], json::parse(R"({"name": "v", "emptyDir": {}})"));
}

TEST(Workload, ItsInitContainersComeFirst) {
  constexpr char kOwn[] =
      R"({"worker": {"template": {"spec": {"initContainers": [{"name": "a"}, {"name": "b", "image": "mine"}]}}}})";
  constexpr char kUnder[] =
      R"({"worker": {"template": {"spec": {"initContainers": [{"name": "b", "image": "theirs"}, {"name": "c"}]}}}})";

  EXPECT_EQ(json::parse(Merge(kOwn, kUnder).worker.template_json)["spec"]["initContainers"],
            json::parse(R"([{"name": "b", "image": "theirs"}, {"name": "c"}, {"name": "a"}])"));
}

TEST(Workload, ARequestAboveALimitThatItSetsIsNamed) {
  const auto problems = [](const char* own, const char* under) {
    return Merge(own, under).problems;
  };
  constexpr char kLimit[] = R"({"worker": {"resources": {"limits": {"memory": "1Gi"}}}})";
  constexpr char kMore[] = R"({"worker": {"resources": {"requests": {"memory": "2000Mi"}}}})";

  const auto found = problems(kMore, kLimit);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].by_profile);
  EXPECT_EQ(found[0].path, "spec.worker.template.spec.containers[0].resources.requests[memory]");
  EXPECT_TRUE(
      problems(R"({"worker": {"resources": {"requests": {"memory": "900M"}}}})", kLimit).empty());
  EXPECT_TRUE(problems(kMore, "{}").empty());
}

TEST(Workload, AnyOtherListIsOneValue) {
  constexpr char kOwn[] =
      R"({"mpi": {"extraArgs": ["-a"], "passEnv": ["A"]}, "network": {"interfaces": ["eth0"]}})";
  constexpr char kUnder[] =
      R"({"mpi": {"extraArgs": ["-b"], "passEnv": ["B"]}, "network": {"interfaces": ["ib0"]}})";

  EXPECT_EQ(
      Merged(kOwn, kUnder),
      Expected(
          R"({"mpi": {"extraArgs": ["-b"], "passEnv": ["A", "B"]}, "network": {"interfaces": ["ib0"]}})"));
  EXPECT_EQ(
      Merged(kOwn, kUnder, {"network.interfaces"}),
      Expected(
          R"({"mpi": {"extraArgs": ["-b"], "passEnv": ["A", "B"]}, "network": {"interfaces": ["eth0"]}})"));
}

TEST(Workload, WhatIsTheJobsStaysTheJobs) {
  const TrainingJobSpec own =
      JobSpec(json::parse(R"({"profile": "gpu", "managedBy": "ringmaster.dev/operator",
    "worker": {"replicas": 3, "minReplicas": 2, "maxReplicas": 4, "workingDir": "/a", "template": {"spec": {"containers": [{"name": "worker", "workingDir": "/b"}]}}},
    "checkpoint": {"volume": {"emptyDir": {}}, "onDelete": "Delete"},
    "suspend": true, "runPolicy": {"activeDeadlineSeconds": 60, "restart": {"limit": 3}}})"));
  const auto workload = DecodeWorkload(
      json::parse(
          R"({"image": "evil", "command": ["evil"], "worker": {"replicas": 9, "env": [{"name": "A"}]},
    "checkpoint": {"volume": {"emptyDir": {}}, "keep": 9}, "runPolicy": {"restart": {"limit": 9}}, "managedBy": "a.b/c"})"),
      {});
  ASSERT_TRUE(workload.ok());

  TrainingJobSpec merged = MergeWorkload(own, *workload);

  EXPECT_NE(merged.worker.template_json, own.worker.template_json);
  EXPECT_EQ(merged.problems.size(), 1U) << "what a job says twice is still said twice";
  merged.worker.template_json = own.worker.template_json;
  EXPECT_EQ(merged, own);
}

TEST(Workload, OneThatCannotBePutUnderAJobIsNeverLeftOut) {
  const TrainingJobSpec own = JobSpec(json::object());

  for (const char* text : {"{", R"({"worker": 7})"}) {
    Workload workload;
    workload.text = text;

    const TrainingJobSpec merged = MergeWorkload(own, workload);

    ASSERT_EQ(merged.problems.size(), 1U) << text;
    EXPECT_EQ(merged.problems[0].path, "spec.profile");
    EXPECT_TRUE(merged.problems[0].by_profile);
  }
}

TEST(Workload, OneThatSetsNothingIsEmptyAndAMistakeIsNamed) {
  EXPECT_EQ(DecodeWorkload(json::object(), {})->text, "");
  EXPECT_EQ(
      DecodeWorkload(json::parse(R"({"worker": {}, "network": {"hostNetwork": false}})"), {})->text,
      "");
  const auto wrong = DecodeWorkload(json::parse(R"({"worker": {"ipcLock": "yes"}})"), {});
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("worker.ipcLock"), std::string::npos)
      << wrong.error().message;
}

}  // namespace
}  // namespace ringmaster::api
