#include "operator/job/controller/pod_refusal.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/api/codec.h"
#include "operator/job/admission/judgement.h"
#include "operator/job/manifests/pods.h"
#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using ringmaster::testing::JobBuilder;

Credentials NoCredentials() {
  Credentials credentials;
  for (const auto& items : {WorkerItems(), LauncherItems()}) {
    for (const std::string& item : items) credentials.hashes[item] = "";
  }
  return credentials;
}

struct Refused {
  api::TrainingJob job;
  Credentials credentials = NoCredentials();
  JobRules rules{};

  JudgedJob Judged() const { return Judge(job, rules).allowed.value(); }
  json Worker() const {
    const json common = CommonWorkerPod(
        {.judged = Judged(), .credentials = credentials, .revision = "r1"}, "10.96.0.7");
    return WorkerPod(common, job.name, 0);
  }
  json Launcher() const {
    return LauncherPod({.judged = Judged(), .credentials = credentials, .revision = "r1"}, 1);
  }
  std::string OfWorker(const std::string& message) const {
    return InTermsOfSpec(message, Worker(), job.spec);
  }
};

std::string TemplateWith(const json& container) {
  json worker = container;
  worker["name"] = "worker";
  return json{{"spec", {{"containers", json::array({worker})}}}}.dump();
}

TEST(PodRefusal, FieldsAreNamedAsTheUserWroteThem) {
  const Refused refused{JobBuilder().WorkerTemplate(TemplateWith({{"image", "a"}})).Build()};
  struct Row {
    const char* said;
    const char* told;
  };
  for (const auto& [said, told] : {
           Row{"Pod \"digits-worker-0\" is invalid: spec.containers[0].volumeMounts[0].name: Not "
               "found: \"data\"",
               "Pod \"digits-worker-0\" is invalid: "
               "spec.worker.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\""},
           Row{"[metadata.labels: Invalid value: \"a b\", spec.nodeSelector: Invalid value]",
               "[spec.worker.template.metadata.labels: Invalid value: \"a b\", "
               "spec.worker.template.spec.nodeSelector: Invalid value]"},
           Row{"strict decoding error: unknown field \"spec.containers[0].imagePullpolicy\"",
               "unknown field "
               "\"spec.worker.template.spec.containers[0].imagePullpolicy\""},
           Row{"json: cannot unmarshal number into Go struct field "
               "EnvVar.spec.containers.env.value of type string",
               "json: cannot unmarshal number into the field "
               "spec.worker.template.spec.containers.env.value of type string"},
           Row{"pods \"digits-worker-0\" is forbidden: see pod.spec.x.",
               "pods \"digits-worker-0\" is forbidden: see pod.spec.x."},
           Row{"Go struct field ", "the field "},
       }) {
    EXPECT_EQ(refused.OfWorker(said), told);
  }
}

TEST(PodRefusal, WhatComesFromTheSpecItselfIsNamedThere) {
  const Refused refused{
      JobBuilder().Checkpoint({.volume_json = R"({"persistentVolumeClaim": {}})"}).Build()};
  const json volumes = refused.Worker()["spec"]["volumes"];
  std::size_t at = 0;
  while (volumes.at(at)["name"] != kCheckpointVolume) ++at;

  EXPECT_EQ(refused.OfWorker("spec.volumes[" + std::to_string(at) +
                             "].persistentVolumeClaim.claimName: Required value"),
            "spec.checkpoint.volume.persistentVolumeClaim.claimName: Required value");
  EXPECT_EQ(refused.OfWorker("spec.containers[0].image: Invalid value"),
            "spec.image: Invalid value");
}

TEST(PodRefusal, FieldsThatStandForATemplatesAreNamedAsTheyAreWritten) {
  json object{{"metadata", {{"name", "digits"}, {"uid", "u"}}}};
  object["spec"]["image"] = "i";
  object["spec"]["worker"] = {{"env", {{{"name", "A"}}}}, {"nodeSelector", {{"a", "b"}}}};
  const Refused refused{*api::DecodeTrainingJob(object)};

  EXPECT_EQ(refused.OfWorker("spec.containers[0].env[0].name: Invalid value"),
            "spec.worker.env[0].name: Invalid value");
  EXPECT_EQ(refused.OfWorker("spec.nodeSelector: Invalid value"),
            "spec.worker.nodeSelector: Invalid value");
  EXPECT_EQ(refused.OfWorker("spec.affinity: Invalid value"),
            "spec.worker.template.spec.affinity: Invalid value");
}

TEST(PodRefusal, ALaunchersTemplateIsTheLaunchers) {
  const Refused refused{JobBuilder().Build()};

  EXPECT_EQ(InTermsOfSpec("spec.nodeName: Invalid value", refused.Launcher(), refused.job.spec),
            "spec.launcher.template.spec.nodeName: Invalid value");
}

TEST(PodRefusal, AWrongQuantityIsFoundWhereTheServerNamesNone) {
  constexpr char kSaid[] =
      "HTTP 400: Pod in version \"v1\" cannot be handled as a Pod: quantities must match the "
      "regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
  for (const char* wrong : {"256MB", "lots", "", "1e", "1 Gi", "-", "1K"}) {
    const Refused refused{
        JobBuilder()
            .WorkerTemplate(TemplateWith(
                {{"resources",
                  {{"limits", {{"cpu", 2}, {"memory", wrong}, {"a", "1e3"}, {"b", "2Ei"}}},
                   {"requests", {{"memory", "1.5Gi"}, {"cpu", "500m"}}}}}}))
            .Build()};
    EXPECT_EQ(refused.OfWorker(kSaid),
              "spec.worker.template.spec.containers[0].resources.limits.memory is \"" +
                  std::string(wrong) +
                  "\", which is not a valid quantity; write for example 500m, 2 or 256Mi");
  }
  EXPECT_EQ(Refused{JobBuilder().Build()}.OfWorker(kSaid), kSaid) << "there is nothing to name";
}

}  // namespace
}  // namespace ringmaster::job
