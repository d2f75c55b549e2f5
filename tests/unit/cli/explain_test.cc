#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/fake_kubectl.h"
#include "tests/unit/cli/objects.h"

namespace ringmaster::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kPin[] = "*' controllerrevisions.apps digits-run-9d1f0a3c '*";
constexpr char kProfile[] = "*' localtrainingprofiles.ringmaster.dev/gpu '*";

json GpuProfile() {
  return {{"metadata", {{"name", "gpu"}}}, {"spec", json::parse(R"({
            "description": "GPUs", "default": true,
            "allows": {"hostNetwork": true, "root": false, "devices": ["rdma/hca"]},
            "limits": {"gpus": 16},
            "overridable": ["worker.env[A]"],
            "workload": {"priorityClassName": "low",
                         "worker": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                                    "env": [{"name": "A", "value": "theirs"}, {"name": "B", "value": "2"}]}}})")}};
}

json OwnSpec() {
  return json::parse(R"({"priorityClassName": "high",
    "checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "states"}}},
    "worker": {"gpus": 8, "env": [{"name": "A", "value": "mine"}], "nodeSelector": {"b.c/d": "1"}}})");
}

// Returns the source of a field; empty if the field is missing.
std::string From(const json& explained, const std::string& field) {
  for (const json& each : explained["fields"]) {
    if (each["field"] == field) return each["from"].get<std::string>();
  }
  return "";
}

TEST(Explain, WhichFieldIsFromWhere) {
  FakeKubectl kubectl;
  kubectl.Gets(kGetJob, JobObject(RunningStatus(), OwnSpec()));
  kubectl.Refuses(kPin, "Error from server (Forbidden): controllerrevisions is forbidden");
  kubectl.Gets(kProfile, GpuProfile());

  const json told = json::parse(kubectl.Run({"explain", "digits", "-o", "json"}).out);

  EXPECT_EQ(told["fromTheRun"], false);
  EXPECT_EQ(told["unread"],
            "the pinned spec of the run: Error from server (Forbidden): controllerrevisions is "
            "forbidden");
  EXPECT_EQ(From(told, "image"), "job");
  EXPECT_EQ(From(told, "priorityClassName"), "profile gpu; the job's high is overridden");
  EXPECT_EQ(From(told, "worker.env[A].value"), "job; overrides theirs of profile gpu");
  EXPECT_EQ(From(told, "worker.env[B].value"), "profile gpu");
  EXPECT_EQ(From(told, "worker.tolerations"), "profile gpu");
  EXPECT_EQ(From(told, "worker.nodeSelector[b.c/d]"), "job");
  EXPECT_EQ(From(told, "worker.resources.limits[nvidia.com/gpu]"), "job");
  EXPECT_EQ(From(told, "checkpoint.keep"), "the default");
  EXPECT_EQ(told["resolved"]["device"]["value"], "8 of nvidia.com/gpu");
  EXPECT_EQ(told["resolved"]["elasticity.mode"]["why"], "the default for ringmaster-train");
  EXPECT_EQ(told["resolved"]["launch agent"]["value"], "SSH");
}

TEST(Explain, TheTextOfTheRunCounts) {
  FakeKubectl kubectl;
  kubectl.Gets(kGetJob, JobObject(RunningStatus(), OwnSpec()));
  kubectl.Gets(
      kPin,
      {{"data",
        {{"spec",
          json::parse(R"({"image": "registry.example.com/worker:1", "command": ["ringmaster-train"],
                           "worker": {"template": {"spec": {"containers": [{"name": "worker", "env": [
                             {"name": "A", "value": "earlier"}]}]}}}})")},
         {"profile", "gpu"},
         {"toolsImage", "registry.example.com/tools:1"}}}});
  kubectl.Gets(kProfile, GpuProfile());

  const auto ran = kubectl.Run({"explain", "digits"});

  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out,
              StartsWith("digits in namespace team-a: the spec of its Pods until it is suspended"));
  EXPECT_THAT(ran.out,
              testing::ContainsRegex("worker\\.env\\[A\\]\\.value +as of the start of the run; "
                                     "changed since +earlier\n"));
  EXPECT_THAT(ran.out, testing::ContainsRegex("tools image +registry.example.com/tools:1 +adds "));
  EXPECT_THAT(ran.out, Not(HasSubstr("Not read")));
}

TEST(Explain, AJobWithoutAProfileOrStatus) {
  FakeKubectl kubectl;
  kubectl.Gets(kGetJob, JobObject(nullptr));
  kubectl.Refuses(kPin, "Error from server (NotFound): none");

  const auto ran = kubectl.Run({"explain", "digits"});

  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("the spec of its Pods if it started now"));
  EXPECT_THAT(ran.out, testing::ContainsRegex("image +job +registry.example.com/worker:1\n"));
}

TEST(Explain, AnImageThatNeitherSpecNorRunNamesIsTheOperators) {
  FakeKubectl kubectl;
  json job = JobObject(nullptr);
  job["spec"].erase("image");
  kubectl.Gets(kGetJob, job);
  kubectl.Refuses(kPin, "Error from server (NotFound): none");

  EXPECT_THAT(kubectl.Run({"explain", "digits"}).out,
              testing::ContainsRegex("image +the operator's default +not known yet\n"));
}

TEST(Explain, AnImageThatWasTakenOutOfTheSpecIsNotTheOperators) {
  for (const bool was_default : {true, false}) {
    FakeKubectl kubectl;
    json job = JobObject(RunningStatus());
    job["spec"].erase("image");
    kubectl.Gets(kGetJob, job);
    kubectl.Gets(kPin,
                 {{"data", {{"spec", {{"image", "worker:1"}}}, {"defaultImage", was_default}}}});
    kubectl.Gets(kProfile, GpuProfile());

    const json told = json::parse(kubectl.Run({"explain", "digits", "-o", "json"}).out);

    EXPECT_EQ(From(told, "image"),
              was_default ? "the operator's default" : "as of the start of the run; changed since");
  }
}

TEST(Profiles, OfTheNamespace) {
  FakeKubectl kubectl;
  json hostile = GpuProfile();
  hostile["metadata"]["name"] = "other";
  hostile["spec"] = {{"description", "\x1b[2J"}, {"limits", 7}};
  kubectl.Gets("*'get localtrainingprofiles.ringmaster.dev -o json'",
               ListOf({GpuProfile(), hostile}));

  const auto ran = kubectl.Run({"profiles"});

  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(
      ran.out,
      "gpu (default for jobs without spec.profile): GPUs\n"
      "  allows  devices rdma/hca, hostNetwork\n"
      "  limits  gpus 16\n"
      "  sets    priorityClassName, worker.env[A].value, worker.env[B].value, worker.tolerations\n"
      "  yields  to the job's value of worker.env[A]\n"
      "other: ^[[2J\n"
      "  allows  nothing beyond an ordinary Pod\n"
      "  limits  nothing\n"
      "  sets    nothing\n");
  EXPECT_EQ(json::parse(kubectl.Run({"profiles", "-o", "json"}).out)[0]["name"], "gpu");
}

TEST(Profiles, OfNone) {
  FakeKubectl kubectl;
  kubectl.Gets("*", ListOf({}));

  EXPECT_THAT(kubectl.Run({"profiles"}).out,
              StartsWith("No TrainingProfile is available in this namespace"));
}

}  // namespace
}  // namespace ringmaster::cli
