#include "operator/job/admission/judgement.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/json/json.h"
#include "operator/api/codec.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;

struct Verdict {
  bool allowed = false;
  std::vector<std::string> paths;
};

Verdict JudgeWorker(const char* worker, const JobRules& rules = {},
                    const json& of_all_pods = json::object()) {
  json object{{"metadata", {{"name", "d"}, {"uid", "u"}}}, {"spec", of_all_pods}};
  object["spec"]["worker"] = *ParseJson(worker);
  object["spec"]["image"] = "i";
  const api::TrainingJob job = *api::DecodeTrainingJob(object);
  const Judgement judgement = Judge(job, rules);
  Verdict verdict{.allowed = judgement.allowed.has_value(), .paths = {}};
  for (const Violation& violation : judgement.violations) verdict.paths.push_back(violation.path);
  return verdict;
}

using Paths = std::vector<std::string>;

TEST(Judgement, NoPodIsMadeOfAJobThatSaysOneThingTwice) {
  const Verdict verdict = JudgeWorker(R"({"workingDir": "/a", "template": {"spec": {"containers":
                      [{"name": "worker", "workingDir": "/a"}]}}})");

  EXPECT_FALSE(verdict.allowed);
  EXPECT_EQ(verdict.paths, Paths{"spec.worker.workingDir"});
  EXPECT_TRUE(JudgeWorker(R"({"gpus": 8, "workingDir": "/a"})").allowed);
}

TEST(Judgement, FieldsThatStandForATemplatesAreJudgedAsThoseAndNamedAsWritten) {
  JobRules rules;
  rules.priority_classes = {"low"};
  rules.max_gpus = 8;
  const auto paths = [&rules](const char* worker) { return JudgeWorker(worker, rules).paths; };

  EXPECT_EQ(paths(R"({"env": [{"name": "RINGMASTER_A", "value": "b"}]})"),
            Paths{"spec.worker.env[0].name"});
  EXPECT_EQ(paths(R"({"env": [{"name": "RINGMASTER_AUDIT_LOG", "value": "/audit"}]})"), Paths{});
  EXPECT_EQ(paths(R"({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]})"),
            Paths{"spec.worker.env[0]"});
  EXPECT_EQ(paths(R"({"volumes": [{"name": "h", "hostPath": {"path": "/"}}]})"),
            Paths{"spec.worker.volumes[0].hostPath"});
  EXPECT_EQ(paths(R"({"volumeMounts": [{"name": "v", "mountPath": "/etc/ringmaster"}]})"),
            Paths{"spec.worker.volumeMounts[0].mountPath"});
  EXPECT_EQ(paths(R"({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]})"),
            Paths{"spec.worker.resourceClaims"});
  EXPECT_EQ(paths(R"({"gpus": 1, "gpuResource": "rdma/hca"})"), Paths{"spec.worker.gpus"});
  EXPECT_EQ(paths(R"({"template": {"spec": {"containers": [{"name": "log"}]}}, "gpus": 1})"),
            Paths{"spec.worker.template.spec.containers"});
  EXPECT_EQ(JudgeWorker("{}", rules, {{"priorityClassName", "high"}}).paths,
            Paths{"spec.priorityClassName"});
}

TEST(Judgement, WhatAJobCallsGpusIsCounted) {
  JobRules rules;
  rules.devices = {"example.com/gpu"};
  rules.max_gpus = 8;
  const auto paths = [&rules](const char* worker) { return JudgeWorker(worker, rules).paths; };

  EXPECT_EQ(paths(R"({"replicas": 2, "gpus": 4, "gpuResource": "example.com/gpu"})"), Paths{});
  EXPECT_EQ(paths(R"({"replicas": 3, "gpus": 4, "gpuResource": "example.com/gpu"})"),
            Paths{"spec.worker.replicas"});
}

}  // namespace
}  // namespace ringmaster::job
