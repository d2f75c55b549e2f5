#include "operator/job/controller/run_pin.h"

#include <functional>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/json/json.h"
#include "operator/api/codec.h"
#include "operator/job/policy/change_policy.h"
#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using ringmaster::testing::JobBuilder;

api::TrainingJobSpec FullSpec() {
  api::TrainingJobSpec spec = JobBuilder().Build().spec;
  spec.slots_per_worker = 2;
  spec.elasticity_mode = api::ElasticityMode::kInPlace;
  spec.worker.template_json = R"({"metadata":null,"spec":{"nodeSelector":{"a":"b"}}})";
  spec.launcher_template_json = R"({"spec":{"priorityClassName":"low"}})";
  spec.checkpoint =
      api::CheckpointSpec{.volume_json = R"({"persistentVolumeClaim":{"claimName":"c"}})",
                          .every_steps = 7,
                          .keep = 2,
                          .restore_job = "other"};
  spec.data_cache =
      api::DataCacheSpec{.from_json = R"({"persistentVolumeClaim":{"claimName":"f"}})",
                         .sub_path = "faces",
                         .size_limit = "1Gi"};
  spec.mpi_extra_args = {"--verbose"};
  spec.mpi_pass_env = {"A"};
  spec.mpi_launch_agent = control::LaunchAgent::kAgent;
  spec.interfaces.include = {"eth0"};
  spec.ssh_port = 2222;
  spec.host_network = spec.worker.privileged = spec.worker.ipc_lock = true;
  spec.worker.rdma = {{"rdma/hca", 1}};
  spec.fault_tolerance.lost_after_millis = 5000;
  spec.start_wait = std::chrono::minutes(2);
  spec.run_policy.restart =
      api::RestartLimit{.limit = 3, .window = std::chrono::seconds(60), .fail_codes = {41}};
  return spec;
}

TEST(RunPin, HoldsAllThatAPodIsMadeFrom) {
  api::TrainingJob job = JobBuilder().Build();
  job.spec = FullSpec();
  job.has_default_image = true;

  const json manifest = RunPinManifest(job, "gpu", "tools:1", api::EncodeRunSpec(job.spec));
  const Result<RunPin> pin = ReadRunPin(*ParseJson(DumpJson(manifest)));

  ASSERT_TRUE(pin.ok()) << pin.error().message;
  EXPECT_EQ(SpecOfRun(*pin->spec, job.spec), job.spec);
  EXPECT_EQ(pin->profile, "gpu");
  EXPECT_EQ(pin->tools_image, "tools:1");
  EXPECT_TRUE(pin->has_default_image);
  EXPECT_EQ(manifest["metadata"]["labels"][api::kLabelRevision].get<std::string>(), pin->revision);
  EXPECT_TRUE(ChangedFields(*pin->spec, job.spec).empty());
}

TEST(RunPin, WhatShapesPodsIsTheRunsAndTheRestIsTodays) {
  using Change = std::function<void(api::TrainingJobSpec&)>;
  const std::vector<std::pair<std::string, Change>> of_the_run{
      {"spec.image", [](auto& spec) { spec.image = "other"; }},
      {"spec.command", [](auto& spec) { spec.command = {"other"}; }},
      {"spec.slotsPerWorker", [](auto& spec) { spec.slots_per_worker.reset(); }},
      {"spec.elasticity.mode",
       [](auto& spec) { spec.elasticity_mode = api::ElasticityMode::kRestart; }},
      {"spec.elasticity", [](auto& spec) { spec.elasticity_mode.reset(); }},
      {"spec.worker.template.spec.nodeSelector",
       [](auto& spec) {
         spec.worker.template_json = R"({"metadata":null,"spec":{"nodeSelector":{"a":"c"}}})";
       }},
      {"spec.worker.template.spec",
       [](auto& spec) { spec.worker.template_json = R"({"metadata":null})"; }},
      {"spec.worker.template", [](auto& spec) { spec.worker.template_json.clear(); }},
      {"spec.launcher.template", [](auto& spec) { spec.launcher_template_json.clear(); }},
      {"spec.checkpoint", [](auto& spec) { spec.checkpoint.reset(); }},
      {"spec.checkpoint.volume.persistentVolumeClaim.claimName",
       [](auto& spec) {
         spec.checkpoint->volume_json = R"({"persistentVolumeClaim":{"claimName":"d"}})";
       }},
      {"spec.checkpoint.everySteps", [](auto& spec) { spec.checkpoint->every_steps = 8; }},
      {"spec.checkpoint.keep", [](auto& spec) { spec.checkpoint->keep = 9; }},
      {"spec.checkpoint.restoreFrom", [](auto& spec) { spec.checkpoint->restore_job.clear(); }},
      {"spec.dataCache", [](auto& spec) { spec.data_cache.reset(); }},
      {"spec.dataCache.from.emptyDir",
       [](auto& spec) {
         spec.data_cache->from_json =
             R"({"emptyDir":{},"persistentVolumeClaim":{"claimName":"f"}})";
       }},
      {"spec.dataCache.subPath", [](auto& spec) { spec.data_cache->sub_path.clear(); }},
      {"spec.dataCache.sizeLimit", [](auto& spec) { spec.data_cache->size_limit = "2Gi"; }},
      {"spec.mpi.extraArgs", [](auto& spec) { spec.mpi_extra_args.clear(); }},
      {"spec.mpi.passEnv", [](auto& spec) { spec.mpi_pass_env = {"B"}; }},
      {"spec.mpi.launchAgent",
       [](auto& spec) { spec.mpi_launch_agent = control::LaunchAgent::kSsh; }},
      {"spec.network.interfaces", [](auto& spec) { spec.interfaces.include.clear(); }},
      {"spec.network.excludeInterfaces", [](auto& spec) { spec.interfaces.exclude = {"eth1"}; }},
      {"spec.network.sshPort", [](auto& spec) { spec.ssh_port = 0; }},
      {"spec.network.hostNetwork", [](auto& spec) { spec.host_network = false; }},
      {"spec.worker.privileged", [](auto& spec) { spec.worker.privileged = false; }},
      {"spec.worker.ipcLock", [](auto& spec) { spec.worker.ipc_lock = false; }},
      {"spec.worker.rdma.rdma/hca", [](auto& spec) { spec.worker.rdma["rdma/hca"] = 2; }},
      {"spec.faultTolerance.lostAfterMilliseconds",
       [](auto& spec) { spec.fault_tolerance.lost_after_millis = 1000; }},
      {"spec.scheduling.startWaitSeconds",
       [](auto& spec) { spec.start_wait = std::chrono::seconds(0); }},
      {"spec.scheduling", [](auto& spec) { spec.start_wait.reset(); }},
      {"spec.faultTolerance", [](auto& spec) { spec.fault_tolerance = {}; }},
      {"spec.runPolicy.restart.limit", [](auto& spec) { spec.run_policy.restart->limit = 4; }},
  };
  const api::TrainingJobSpec pinned = FullSpec();
  const std::string revision = RevisionOf(api::EncodeRunSpec(pinned));
  for (const auto& [field, change] : of_the_run) {
    api::TrainingJobSpec today = pinned;
    change(today);
    EXPECT_EQ(ChangedFields(pinned, today), std::vector<std::string>{field});
    EXPECT_NE(RevisionOf(api::EncodeRunSpec(today)), revision) << field;
    EXPECT_EQ(SpecOfRun(pinned, today), pinned) << field;
  }
  const std::vector<Change> of_today{
      [](auto& spec) { spec.worker.replicas = 9; },
      [](auto& spec) { spec.worker.min_replicas = 1; },
      [](auto& spec) { spec.worker.max_replicas = 12; },
      [](auto& spec) { spec.profile = "b"; },
      [](auto& spec) { spec.suspend = true; },
      [](auto& spec) { spec.run_policy.active_deadline = std::chrono::seconds(1); },
      [](auto& spec) { spec.run_policy.clean_pods = api::CleanPodPolicy::kAll; },
  };
  for (std::size_t i = 0; i < of_today.size(); ++i) {
    api::TrainingJobSpec today = pinned;
    of_today[i](today);
    EXPECT_TRUE(ChangedFields(pinned, today).empty()) << i;
    EXPECT_EQ(RevisionOf(api::EncodeRunSpec(today)), revision) << i;
    EXPECT_EQ(SpecOfRun(pinned, today), today) << i;
  }
}

TEST(RunPin, FieldsThatStandForATemplatesAreKeptForTheRun) {
  const auto decoded = [](const json& worker) {
    return api::DecodeTrainingJob(
               {{"metadata", {{"name", "d"}, {"uid", "u"}}}, {"spec", {{"worker", worker}}}})
        ->spec;
  };
  const json typed{{"gpus", 8}, {"gpuResource", "example.com/gpu"}, {"workingDir", "/a"}};
  json other = typed;
  other["workingDir"] = "/b";
  json twice = typed;
  twice["template"]["spec"]["containers"] = {{{"name", "worker"}, {"workingDir", "/a"}}};
  const api::TrainingJobSpec pinned = *api::DecodeRunSpec(api::EncodeRunSpec(decoded(typed)));

  EXPECT_EQ(SpecOfRun(pinned, decoded(typed)), decoded(typed));
  EXPECT_TRUE(ChangedFields(pinned, decoded(typed)).empty());
  EXPECT_EQ(SpecOfRun(pinned, decoded(other)), decoded(typed));
  EXPECT_EQ(ChangedFields(pinned, decoded(twice)),
            std::vector<std::string>{"spec.worker.workingDir"});
  EXPECT_NE(RevisionOf(api::EncodeRunSpec(decoded(twice))),
            RevisionOf(api::EncodeRunSpec(decoded(typed))));
}

TEST(RunPin, AFieldThatIsTakenAwayIsNamedAsItWasWritten) {
  const auto job = [](const json& worker) {
    return *api::DecodeTrainingJob(
        {{"metadata", {{"name", "d"}, {"uid", "u"}}}, {"spec", {{"worker", worker}}}});
  };
  const api::TrainingJob typed = job({{"gpus", 8}, {"workingDir", "/a"}});
  const json manifest = RunPinManifest(typed, "", "", api::EncodeRunSpec(typed.spec));
  json forged = manifest;
  forged["data"]["typedFields"] = {{"x", 7}, {std::string(20000, 'x'), "y"}};

  const api::TrainingJobSpec pinned = *ReadRunPin(manifest)->spec;

  EXPECT_EQ(ChangedFields(pinned, job({{"gpus", 8}}).spec),
            std::vector<std::string>{"spec.worker.workingDir"});
  EXPECT_EQ(SpecOfRun(pinned, job({{"gpus", 8}}).spec).typed_fields.size(), 2U);
  EXPECT_TRUE(ReadRunPin(forged)->spec->typed_fields.empty());
}

TEST(RunPin, AnObjectWithoutASpecIsAnError) {
  for (const char* text :
       {"{}", R"({"data": null})", R"({"data": {"spec": 7}})",
        R"({"data": {"spec": {"command": 7}}})",
        R"({"data": {"spec": {"worker": {"template": "x"}}}})", R"({"data": []})"}) {
    EXPECT_FALSE(ReadRunPin(*ParseJson(text)).ok()) << text;
  }
}

}  // namespace
}  // namespace ringmaster::job
