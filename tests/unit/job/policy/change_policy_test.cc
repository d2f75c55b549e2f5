#include "operator/job/policy/change_policy.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/json/json.h"
#include "operator/api/codec.h"
#include "operator/api/names.h"
#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::JobBuilder;
using Fields = std::vector<std::string>;

// run_pin_test tests which field belongs to which path.
TEST(ChangePolicy, NamesAHandfulOfFields) {
  const api::TrainingJobSpec pinned = JobBuilder().Build().spec;
  api::TrainingJobSpec today = pinned;
  today.command = {"other"};
  today.image = "other";
  EXPECT_EQ(ChangedFields(pinned, today), (Fields{"spec.command", "spec.image"}));

  today.mpi_pass_env = {"A"};
  today.mpi_extra_args = {"--verbose"};
  today.interfaces.include = {"eth1"};
  today.ssh_port = 2200;
  today.host_network = true;
  EXPECT_EQ(ChangedFields(pinned, today).size(), 5U);
}

TEST(ChangePolicy, NamesATemplatesFieldsToTheFourthNameBelowTheSpec) {
  api::TrainingJobSpec pinned = JobBuilder().Build().spec;
  api::TrainingJobSpec today = pinned;
  pinned.worker.template_json = R"({"metadata":{"labels":{"a":"b","c":"d"}}})";
  today.worker.template_json = R"({"metadata":{"labels":{"a":"x","c":"x"}}})";

  EXPECT_EQ(ChangedFields(pinned, today), Fields{"spec.worker.template.metadata.labels"});
}

TEST(ChangePolicy, TextsThatAreTooLongToReadHaveChanged) {
  const api::TrainingJobSpec pinned = JobBuilder().Build().spec;
  api::TrainingJobSpec today = pinned;
  today.texts = api::TrainingJobSpec::Texts::kTooLong;
  today.longest_text = "spec.command";

  EXPECT_EQ(ChangedFields(pinned, today), Fields{"spec.command"});
}

api::TrainingJobSpec Decoded(const char* worker) {
  nlohmann::json object{{"metadata", {{"name", "d"}, {"uid", "u"}}}};
  object["spec"]["worker"] = *ParseJson(worker);
  return api::DecodeTrainingJob(object)->spec;
}

TEST(ChangePolicy, FieldsThatStandForATemplatesAreNamedAsTheyAreWritten) {
  struct Row {
    const char* pinned;
    const char* today;
    Fields changed;
  };
  const Row table[] = {
      {R"({"gpus": 8, "env": [{"name": "A"}]})",
       R"({"gpus": 4, "env": [{"name": "A"}]})",
       {"spec.worker.gpus"}},
      {R"({"gpus": 8, "env": [{"name": "A"}], "nodeSelector": {"a": "b"}})",
       R"({"gpus": 8, "env": [{"name": "B"}], "nodeSelector": {"a": "c"}})",
       {"spec.worker.env", "spec.worker.nodeSelector"}},
      {R"({})",
       R"({"gpus": 8, "workingDir": "/w"})",
       {"spec.worker.gpus", "spec.worker.workingDir"}},
      {R"({"gpus": 8})", R"({"gpus": 8, "tolerations": []})", {"spec.worker.tolerations"}},
      {R"({"gpus": 8, "env": [{"name": "A"}]})", R"({"gpus": 8})", {"spec.worker.env"}},
      {R"({"gpus": 8, "tolerations": []})",
       R"({})",
       {"spec.worker.gpus", "spec.worker.tolerations"}},
      {R"({"gpus": 8, "template": {"spec": {"containers": [{"name": "worker"}, {"name": "side", "image": "a"}]}}})",
       R"({"gpus": 8, "template": {"spec": {"containers": [{"name": "worker"}, {"name": "side", "image": "b"}]}}})",
       {"spec.worker.template.spec.containers[1]"}},
      {R"({"gpus": 8, "env": [{"name": "A"}], "workingDir": "/w", "nodeSelector": {"a": "b"}, "tolerations": [], "volumes": [{"name": "v"}]})",
       R"({})",
       {"spec.worker.gpus", "spec.worker.env", "spec.worker.workingDir", "spec.worker.volumes",
        "spec.worker.nodeSelector"}},
      {R"({"template": {"spec": {"nodeSelector": {"a": "b"}}}})",
       R"({"nodeSelector": {"a": "b"}})",
       {}},
      {R"({"template": {"spec": {"nodeSelector": {"a": "b"}}}})",
       R"({"nodeSelector": {"a": "b"}, "template": {"spec": {"nodeSelector": {"a": "b"}}}})",
       {"spec.worker.nodeSelector"}},
  };
  for (const Row& row : table) {
    EXPECT_EQ(ChangedFields(Decoded(row.pinned), Decoded(row.today)), row.changed) << row.today;
  }
}

TEST(ChangePolicy, AChangeThatWaitsIsAConditionUntilItIsUndoneOrTheJobEnds) {
  struct Row {
    const char* name;
    std::vector<std::string> changed;
    std::vector<const char*> conditions;  // conditions that are True before the change
    std::string notice;                   // empty: no notice
  };
  const Row table[] = {
      {"nothing has changed", {}, {}, ""},
      {"two fields have", {"spec.image", "spec.command"}, {}, "True ChangedWhileRunning"},
      {"it is undone", {}, {api::kChangePending}, "False SpecInUse"},
      {"the job ends", {"spec.image"}, {api::kChangePending, api::kFailed}, "False Finished"},
      {"it had ended before", {"spec.image"}, {api::kFailed}, ""},
  };
  for (const Row& row : table) {
    JobBuilder job;
    for (const char* type : row.conditions) job.Condition(type, "Because");

    const auto notice = NoticeOfChange(row.changed, job.Build().status);

    const bool waits = notice && notice->status == api::ConditionStatus::kTrue;
    EXPECT_EQ(notice ? (waits ? "True " : "False ") + notice->reason : "", row.notice) << row.name;
    if (waits) {
      EXPECT_NE(notice->message.find("or its TrainingProfile: spec.image, spec.command."),
                std::string::npos)
          << notice->message;
    }
  }
}

}  // namespace
}  // namespace ringmaster::job
