#include "operator/api/typed_fields.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/json/json.h"
#include "operator/api/codec.h"

namespace ringmaster::api {
namespace {

using nlohmann::json;

json Parse(const std::string& text) { return *ParseJson(text); }

TrainingJobSpec Decode(const std::string& fields) {
  json object = Parse(R"({"metadata": {"name": "d", "uid": "u"}})");
  object["spec"] = Parse(fields);
  const auto job = DecodeTrainingJob(object);
  EXPECT_TRUE(job.ok()) << job.error().message;
  return job.ok() ? job->spec : TrainingJobSpec();
}

std::string Texts(const std::vector<FieldProblem>& problems) {
  std::string texts;
  for (const FieldProblem& problem : problems) {
    texts += problem.path + ": " + problem.message + "\n";
  }
  return texts;
}

// Returns the decoded spec of a job with this spec.worker.
TrainingJobSpec DecodeWorker(const std::string& worker) {
  return Decode(R"({"worker": )" + worker + "}");
}

TEST(TypedFields, SayTheSameAsATemplate) {
  const TrainingJobSpec typed = Decode(R"({
    "imagePullSecrets": [{"name": "registry"}], "priorityClassName": "low",
    "worker": {"gpus": 8, "resources": {"requests": {"cpu": 4}, "limits": {"memory": "64Gi"}},
      "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}],
      "env": [{"name": "A", "value": "1"}], "envFrom": [{"prefix": "B", "secretRef": {"name": "s"}}],
      "volumes": [{"name": "v", "emptyDir": {}}], "volumeMounts": [{"name": "v", "mountPath": "/v"}],
      "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "workingDir": "/w"}})");
  const TrainingJobSpec templates = Decode(R"({
    "launcher": {"template": {"spec": {
      "imagePullSecrets": [{"name": "registry"}], "priorityClassName": "low"}}},
    "worker": {"template": {"spec": {
      "imagePullSecrets": [{"name": "registry"}], "priorityClassName": "low",
      "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}],
      "volumes": [{"name": "v", "emptyDir": {}}],
      "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}],
      "containers": [{"name": "worker", "workingDir": "/w",
        "resources": {"requests": {"cpu": 4}, "limits": {"memory": "64Gi", "nvidia.com/gpu": 8},
                      "claims": [{"name": "nic"}]},
        "env": [{"name": "A", "value": "1"}],
        "envFrom": [{"prefix": "B", "secretRef": {"name": "s"}}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}}})");

  EXPECT_EQ(Texts(typed.problems), "");
  EXPECT_EQ(EncodeRunSpec(typed), EncodeRunSpec(templates));
  EXPECT_EQ(EncodeRunSpec(*DecodeRunSpec(EncodeRunSpec(typed))), EncodeRunSpec(templates));
}

TEST(TypedFields, JoinWhatATemplateSaysElse) {
  const TrainingJobSpec spec = DecodeWorker(R"({"gpus": 2, "env": [{"name": "A"}],
    "template": {"metadata": {"labels": {"team": "a"}}, "spec": {"nodeSelector": null,
      "containers": [{"name": "log"},
                     {"name": "worker", "env": null, "resources": {"limits": {"cpu": 1}}}]}}})");

  EXPECT_EQ(Texts(spec.problems), "");
  EXPECT_EQ(Parse(spec.worker.template_json),
            Parse(R"({"metadata": {"labels": {"team": "a"}}, "spec": {"nodeSelector": null,
              "containers": [{"name": "log"},
                {"name": "worker", "env": [{"name": "A"}],
                 "resources": {"limits": {"cpu": 1, "nvidia.com/gpu": 2}}}]}})"));
}

TEST(TypedFields, LeaveATemplateAloneWhereThereAreNone) {
  for (const char* worker :
       {R"({"template": {"spec": {}}})", R"({"template": {"spec": {}}, "env": null})",
        R"({"template": {"spec": {}}, "gpus": 0})"}) {
    EXPECT_EQ(DecodeWorker(worker).worker.template_json, R"({"spec":{}})") << worker;
  }
  EXPECT_EQ(DecodeWorker(R"({"gpus": 8})").launcher_template_json, "");
}

TEST(TypedFields, AreRefusedByNameWhereATemplateSaysTheSame) {
  struct Row {
    const char* spec;
    const char* problem;
  };
  const Row table[] = {
      {R"({"worker": {"env": [], "template": {"spec": {"containers":
           [{"name": "log"}, {"name": "worker", "env": []}]}}}})",
       "spec.worker.env: is also set as spec.worker.template.spec.containers[1].env; "
       "keep one of them\n"},
      {R"({"worker": {"nodeSelector": {"a": "b"}, "template": {"spec": {"nodeSelector": {}}}}})",
       "spec.worker.nodeSelector: is also set as spec.worker.template.spec.nodeSelector; "
       "keep one of them\n"},
      {R"({"worker": {"gpus": 8, "resources": {"limits": {"nvidia.com/gpu": 8}}}})",
       "spec.worker.gpus: is also set as spec.worker.resources.limits[nvidia.com/gpu]; "
       "keep one of them\n"},
      {R"({"worker": {"gpus": 8, "gpuResource": "a.b/gpu", "template": {"spec": {"containers":
           [{"name": "worker", "resources": {"requests": {"a.b/gpu": 8}}}]}}}})",
       "spec.worker.gpus: is also set as "
       "spec.worker.template.spec.containers[0].resources.requests[a.b/gpu]; keep one of them\n"},
      {R"({"worker": {"resourceClaims": [], "template": {"spec": {"resourceClaims": []}}}})",
       "spec.worker.resourceClaims: is also set as spec.worker.template.spec.resourceClaims; "
       "keep one of them\n"},
      {R"({"priorityClassName": "a", "launcher": {"template": {"spec":
           {"priorityClassName": "b"}}}})",
       "spec.priorityClassName: is also set as spec.launcher.template.spec.priorityClassName; "
       "keep one of them\n"},
      {R"({"worker": {"gpus": "8"}})",
       "spec.worker.gpus: is not a whole number from 0 to 64; correct it\n"},
  };
  for (const Row& row : table) EXPECT_EQ(Texts(Decode(row.spec).problems), row.problem);
}

TEST(TypedFields, SurviveTemplatesOfAnyShape) {
  for (const char* pod_template :
       {R"({"spec": 7})", R"({"spec": []})", R"({"spec": {"containers": "a"}})",
        R"({"spec": {"containers": [{"name": "worker", "resources": 7}]}})",
        R"({"spec": {"containers": [{"name": "worker", "resources": {"limits": []}}]}})"}) {
    const TrainingJobSpec spec =
        DecodeWorker(R"({"gpus": 8, "template": )" + std::string(pod_template) + "}");
    EXPECT_EQ(spec.problems.size(), 1U) << pod_template;
  }
  // The following containers must be decoded as they are, because the policies reject them later.
  for (const char* containers : {R"([7])", R"([{"name": "log"}])", R"([{"name": 7}])"}) {
    const TrainingJobSpec spec = DecodeWorker(
        R"({"gpus": 8, "template": {"spec": {"containers": )" + std::string(containers) + "}}}");
    EXPECT_EQ(Parse(spec.worker.template_json)["spec"]["containers"], Parse(containers));
  }
}

TEST(TypedFields, GiveTheirNamesToPathsInTheTemplate) {
  const TrainingJobSpec spec = Decode(R"({"priorityClassName": "a",
    "worker": {"gpus": 8, "resources": {}, "env": [], "resourceClaims": [{"name": "c"}]}})");
  const auto path = [&spec](const std::string& of_pod) {
    return PathAsWritten(spec.typed_fields, of_pod);
  };
  const std::string container = "spec.worker.template.spec.containers[0]";

  EXPECT_EQ(path(container + ".env"), "spec.worker.env");
  EXPECT_EQ(path(container + ".env[1].name"), "spec.worker.env[1].name");
  EXPECT_EQ(path(container + ".envFrom[1]"), container + ".envFrom[1]");
  EXPECT_EQ(path(container + ".resources.limits[cpu]"), "spec.worker.resources.limits[cpu]");
  EXPECT_EQ(path(container + ".resources.limits[nvidia.com/gpu]"), "spec.worker.gpus");
  EXPECT_EQ(path(container + ".resources.claims[0].name"), "spec.worker.resourceClaims[0].name");
  EXPECT_EQ(path("spec.launcher.template.spec.priorityClassName"), "spec.priorityClassName");
  EXPECT_EQ(path("spec.image"), "spec.image");
}

TEST(TypedFields, AreCountedWithTheTextsOfTheJob) {
  json object = Parse(R"({"metadata": {"name": "d", "uid": "u"}, "spec": {"worker": {}}})");
  object["spec"]["worker"]["env"] = {{{"name", "A"}, {"value", std::string(300 << 10, 'x')}}};

  const auto spec = DecodeTrainingJob(object)->spec;

  EXPECT_EQ(spec.texts, TrainingJobSpec::Texts::kTooLong);
  EXPECT_EQ(spec.longest_text, "spec.worker");
}

}  // namespace
}  // namespace ringmaster::api
