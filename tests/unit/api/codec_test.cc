#include "operator/api/codec.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/json/json.h"
#include "operator/api/names.h"
#include "operator/kube/json_access.h"

namespace ringmaster::api {
namespace {

using nlohmann::json;

json Parse(const char* text) { return *ParseJson(text); }

TEST(Codec, FillsInTheDefaultsOfTheCrd) {
  const auto job = DecodeTrainingJob(Parse(R"({
    "metadata": {"name": "digits", "namespace": "a", "uid": "u", "resourceVersion": "7", "generation": 2},
    "spec": {"image": "i", "command": ["x", "y"]}})"));

  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->Key(), "a/digits");
  EXPECT_EQ(job->generation, 2);
  EXPECT_EQ(job->spec.worker.replicas, 1);
  EXPECT_EQ(job->spec.MinReplicas(), 1);
  EXPECT_FALSE(job->spec.slots_per_worker.has_value());
  EXPECT_FALSE(job->spec.elasticity_mode.has_value());
  EXPECT_EQ(job->spec.ssh_port, 0);
  EXPECT_FALSE(job->deleting);
  EXPECT_FALSE(job->spec.suspend);
  EXPECT_EQ(job->spec.run_policy.clean_pods, CleanPodPolicy::kStillRunning);
  EXPECT_FALSE(job->spec.run_policy.active_deadline.has_value());
  EXPECT_FALSE(job->spec.run_policy.restart.has_value());
}

TEST(Codec, AJobThatNamesNoImageHasTheDefaultOne) {
  const json without = Parse(R"({"metadata": {"name": "d", "uid": "u"}, "spec": {}})");
  const json with = Parse(R"({"metadata": {"name": "d", "uid": "u"}, "spec": {"image": "own:1"}})");

  EXPECT_EQ(DecodeTrainingJobWithImage(without, "worker:1")->spec.image, "worker:1");
  EXPECT_EQ(DecodeTrainingJobWithImage(with, "worker:1")->spec.image, "own:1");
  EXPECT_EQ(DecodeTrainingJob(without)->spec.image, "");
  // The pinned spec of the run contains the image, so a new default does not change the run.
  const auto job = DecodeTrainingJobWithImage(without, "worker:1");
  EXPECT_EQ(DecodeRunSpec(EncodeRunSpec(job->spec))->image, "worker:1");
}

TEST(Codec, InPlaceOneWorkerIsEnoughUnlessTheJobSaysOtherwise) {
  const auto least = [](const json& changes) {
    json job = Parse(R"({"metadata": {"name": "d", "uid": "u"},
                         "spec": {"image": "i", "command": ["x"], "worker": {"replicas": 4}}})");
    job["spec"].merge_patch(changes);
    const auto decoded = DecodeTrainingJob(job);
    EXPECT_TRUE(decoded.ok());
    return decoded.ok() ? decoded->spec.MinReplicas() : -1;
  };
  const json in_place{{"elasticity", {{"mode", "InPlace"}}}};

  EXPECT_EQ(least(json::object()), 4);
  EXPECT_EQ(least({{"elasticity", {{"mode", "Restart"}}}}), 4);
  EXPECT_EQ(least(in_place), 1);
  EXPECT_EQ(least({{"command", {"/opt/ringmaster/bin/ringmaster-train"}}}), 1);
  EXPECT_EQ(least({{"command", {"ringmaster-train", "--workload=mnist"}}}), 1);
  json three = in_place;
  three["worker"]["minReplicas"] = 3;
  EXPECT_EQ(least(three), 3);
  three["worker"]["replicas"] = 2;
  EXPECT_EQ(least(three), 2);
}

TEST(Codec, AJobOfPartialFcNeedsAllWorkersUnlessItSaysOtherwise) {
  TrainingJobSpec spec;
  spec.worker.replicas = 4;
  spec.command = {"ringmaster-train", "--workload=partial-fc"};
  EXPECT_EQ(spec.MinReplicas(), 4);
  const TrainingJobSpec run = spec;
  spec.command = {"ringmaster-train", "--classes", "7", "--workload", "partial-fc"};
  EXPECT_EQ(spec.MinReplicas(), 4);

  // The result depends on the command of the run and the current number of replicas.
  spec.command = {"ringmaster-train"};
  spec.worker.replicas = 6;
  EXPECT_EQ(spec.MinReplicas(), 1);
  EXPECT_EQ(SpecOfRun(*DecodeRunSpec(EncodeRunSpec(run)), spec).MinReplicas(), 6);
  spec.worker.min_replicas = 2;
  EXPECT_EQ(SpecOfRun(*DecodeRunSpec(EncodeRunSpec(run)), spec).MinReplicas(), 2);
}

TEST(Codec, ReadsEveryFieldOfTheSpec) {
  const auto job = DecodeTrainingJob(Parse(R"({
    "metadata": {"name": "d", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"image": "i", "command": ["x"], "slotsPerWorker": 8, "elasticity": {"mode": "InPlace", "allowedSizes": [4, 2]},
      "worker": {"replicas": 4, "minReplicas": 2, "maxReplicas": 9, "privileged": true, "ipcLock": true, "rdma": {"rdma/hca": 2}, "template": {"spec": {"nodeSelector": {"a": "b"}}}},
      "launcher": {"template": {"metadata": {}}},
      "mpi": {"implementation": "OpenMPI", "extraArgs": ["-v"], "passEnv": ["NCCL_DEBUG"], "launchAgent": "Agent"},
      "checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "c"}}, "everySteps": 100, "keep": 5,
                     "restoreFrom": {"job": "digits"}},
      "dataCache": {"from": {"persistentVolumeClaim": {"claimName": "f"}}, "subPath": "g", "sizeLimit": "140Gi"},
      "network": {"interfaces": ["eth1"], "excludeInterfaces": ["eth2"], "sshPort": 2222, "hostNetwork": true},
      "faultTolerance": {"lostAfterMilliseconds": 5000, "stallAfterSeconds": 0, "stopGraceSeconds": 30, "loadTimeoutSeconds": 3600,
        "connectTimeoutSeconds": 90},
      "scheduling": {"startWaitSeconds": 120},
      "suspend": true, "runPolicy": {"activeDeadlineSeconds": 86400, "startTimeoutSeconds": 600,
        "ttlSecondsAfterSuccess": 0, "ttlSecondsAfterFailure": 7, "cleanPodPolicy": "All",
        "restart": {"limit": 3, "crashLimit": 2, "failOnExitCodes": [4, 5],
        "ignoreExitCodes": [77]}}, "managedBy": "ringmaster.dev/operator"}})"));

  ASSERT_TRUE(job.ok());
  EXPECT_TRUE(job->deleting);
  EXPECT_EQ(job->spec.slots_per_worker, 8);
  EXPECT_EQ(job->spec.elasticity_mode, ElasticityMode::kInPlace);
  EXPECT_EQ(job->spec.allowed_sizes, (std::vector<int>{4, 2}));
  EXPECT_EQ(job->spec.worker.max_replicas, 9);
  EXPECT_EQ(job->spec.MinReplicas(), 2);
  EXPECT_EQ(job->spec.worker.template_json, R"({"spec":{"nodeSelector":{"a":"b"}}})");
  EXPECT_EQ(job->spec.launcher_template_json, R"({"metadata":{}})");
  EXPECT_EQ(job->spec.mpi_extra_args, std::vector<std::string>{"-v"});
  EXPECT_EQ(job->spec.mpi_pass_env, std::vector<std::string>{"NCCL_DEBUG"});
  EXPECT_EQ(job->spec.mpi_launch_agent, control::LaunchAgent::kAgent);
  ASSERT_TRUE(job->spec.checkpoint.has_value());
  EXPECT_EQ(job->spec.checkpoint->volume_json, R"({"persistentVolumeClaim":{"claimName":"c"}})");
  EXPECT_EQ(job->spec.checkpoint->every_steps, 100);
  EXPECT_EQ(job->spec.checkpoint->keep, 5);
  EXPECT_EQ(job->spec.checkpoint->restore_job, "digits");
  EXPECT_EQ(job->spec.checkpoint->restore_path, "");
  ASSERT_TRUE(job->spec.data_cache.has_value());
  EXPECT_EQ(job->spec.data_cache->from_json, R"({"persistentVolumeClaim":{"claimName":"f"}})");
  EXPECT_EQ(job->spec.data_cache->sub_path, "g");
  EXPECT_EQ(job->spec.data_cache->size_limit, "140Gi");
  EXPECT_EQ(job->spec.interfaces, (control::Interfaces{.include = {"eth1"}, .exclude = {"eth2"}}));
  EXPECT_TRUE(job->spec.host_network && job->spec.worker.privileged && job->spec.worker.ipc_lock);
  EXPECT_EQ(job->spec.worker.rdma, (std::map<std::string, int>{{"rdma/hca", 2}}));
  EXPECT_EQ(job->spec.ssh_port, 2222);
  const FaultTolerance& faults = job->spec.fault_tolerance;
  EXPECT_EQ(faults.lost_after_millis, 5000);
  EXPECT_EQ(faults.stall_after, std::chrono::seconds(0));
  EXPECT_EQ(faults.stop_grace, std::chrono::seconds(30));
  EXPECT_EQ(faults.load_timeout, std::chrono::hours(1));
  EXPECT_EQ(faults.connect_timeout, std::chrono::seconds(90));
  EXPECT_EQ(job->spec.start_wait, std::chrono::minutes(2));
  const RunPolicy& policy = job->spec.run_policy;
  EXPECT_TRUE(job->spec.suspend);
  EXPECT_EQ(policy.active_deadline, std::chrono::hours(24));
  EXPECT_EQ(policy.start_timeout, std::chrono::minutes(10));
  EXPECT_EQ(policy.ttl_after_success, std::chrono::seconds(0));
  EXPECT_EQ(policy.ttl_after_failure, std::chrono::seconds(7));
  EXPECT_EQ(policy.clean_pods, CleanPodPolicy::kAll);
  ASSERT_TRUE(policy.restart.has_value());
  EXPECT_EQ(policy.restart->limit, 3);
  EXPECT_EQ(policy.restart->window, std::chrono::hours(1));
  EXPECT_EQ(policy.restart->crash_limit, 2);
  EXPECT_EQ(policy.restart->fail_codes, (std::vector<int>{4, 5}));
  EXPECT_EQ(policy.restart->ignored_codes, std::vector<int>{77});
  EXPECT_EQ(job->spec.managed_by, "ringmaster.dev/operator");
}

TEST(Codec, TheProgramsNameDecidesOnElasticityWhereTheModeDoesNot) {
  TrainingJobSpec spec;
  const auto in_place = [&spec](const char* program, std::optional<ElasticityMode> mode) {
    spec.command = {program};
    spec.elasticity_mode = mode;
    return spec.InPlace();
  };
  EXPECT_TRUE(in_place("/usr/bin/ringmaster-train", std::nullopt));
  EXPECT_FALSE(in_place("autoencoder", std::nullopt));
  EXPECT_TRUE(in_place("autoencoder", ElasticityMode::kInPlace));
  EXPECT_FALSE(in_place("ringmaster-train", ElasticityMode::kRestart));
}

TEST(Codec, TheNewestCheckpointIsReadBack) {
  TrainingJobStatus status;
  status.checkpoint = {.step = 500, .time = "2026-11-20T10:00:00Z", .bytes = int64_t{3} << 40};
  json object = Parse(R"({"metadata": {"name": "d", "uid": "u"}, "spec": {"command": ["x"]}})");
  object["status"] = EncodeStatus(status);

  const auto job = DecodeTrainingJob(object);

  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->status.checkpoint, status.checkpoint);
}

TEST(Codec, AQuantityMayBeANumber) {
  const auto job = DecodeTrainingJob(Parse(R"({
    "metadata": {"name": "d", "uid": "u"},
    "spec": {"image": "i", "command": ["x"], "dataCache": {"from": {}, "sizeLimit": 150323855360}}})"));

  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(job->spec.data_cache->size_limit, "150323855360");
}

TEST(Codec, NamesTheFieldThatIsWrong) {
  for (const auto& [spec, field] : std::vector<std::pair<const char*, const char*>>{
           {R"({"command": [1]})", "spec.command"},
           {R"({"worker": {"replicas": "3"}})", "spec.worker.replicas"},
           {R"({"worker": {"replicas": 5000000000}})", "spec.worker.replicas"},
           {R"({"worker": {"template": []}})", "spec.worker.template"},
           {R"({"elasticity": {"mode": "Elastic"}})",
            "spec.elasticity.mode': expected one of InPlace, Restart"},
           {R"({"checkpoint": {}})", "spec.checkpoint.volume"},
           {R"({"checkpoint": {"volume": {}, "everySteps": "x"}})", "spec.checkpoint.everySteps"},
           {R"({"checkpoint": {"volume": {}, "restoreFrom": {}}})", "spec.checkpoint.restoreFrom"},
           {R"({"checkpoint": {"volume": {}, "restoreFrom": {"job": "a", "path": "b"}}})",
            "spec.checkpoint.restoreFrom"},
           {R"({"dataCache": []})", "spec.dataCache"},
           {R"({"dataCache": {"sizeLimit": "1Gi"}})", "spec.dataCache.from"},
           {R"({"dataCache": {"from": {}}})", "spec.dataCache.sizeLimit"},
           {R"({"dataCache": {"from": {}, "sizeLimit": 1.5}})", "spec.dataCache.sizeLimit"},
           {R"({"runPolicy": 1})", "spec.runPolicy"},
           {R"({"suspend": "yes"})", "spec.suspend"},
           {R"({"runPolicy": {"startTimeoutSeconds": 1.5}})", "spec.runPolicy.startTimeoutSeconds"},
           {R"({"runPolicy": {"cleanPodPolicy": "Some"}})", "spec.runPolicy.cleanPodPolicy"},
           {R"({"runPolicy": {"restart": []}})", "spec.runPolicy.restart"},
           {R"({"runPolicy": {"restart": {"limit": "x"}}})", "spec.runPolicy.restart.limit"},
           {R"({"runPolicy": {"restart": {"failOnExitCodes": 3}}})",
            "spec.runPolicy.restart.failOnExitCodes"},
           {R"({"runPolicy": {"restart": {"ignoreExitCodes": ["x"]}}})",
            "spec.runPolicy.restart.ignoreExitCodes"},
           {R"({"mpi": {"passEnv": {}}})", "spec.mpi.passEnv"}}) {
    json object = Parse(R"({"metadata": {"name": "d", "uid": "u"}})");
    object["spec"] = Parse(spec);

    const auto job = DecodeTrainingJob(object);

    ASSERT_FALSE(job.ok()) << spec;
    EXPECT_NE(job.error().message.find(field), std::string::npos) << job.error().message;
  }
}

TEST(Codec, MetadataAndStatusAreReadWhateverTheSpecIs) {
  const json object = Parse(R"({"metadata": {"name": "d", "uid": "u", "generation": 3,
                                             "finalizers": ["ringmaster.dev/checkpoints"],
                                             "annotations": {"ringmaster.dev/installation": "there/other"}},
                                "spec": {"worker": {"replicas": "of another version"}},
                                "status": {"installation": "here/ringmaster"}})");
  ASSERT_FALSE(DecodeTrainingJob(object).ok());

  const auto job = DecodeWithoutSpec(object);

  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(job->uid, "u");
  EXPECT_TRUE(job->held);
  EXPECT_EQ(job->installation, "there/other");
  EXPECT_EQ(job->status.installation, "here/ringmaster");
}

TEST(Codec, ReplicasNeverExceedTheirMaximum) {
  json object = Parse(R"({"metadata": {"name": "d", "uid": "u"}})");
  object["spec"] = Parse(R"({"command": ["x"], "worker": {"replicas": 9, "maxReplicas": 4}})");

  const auto job = DecodeTrainingJob(object);

  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->spec.worker.replicas, 4);
}

TrainingJobStatus FullStatus() {
  TrainingJobStatus status;
  status.observed_generation = 3;
  status.state = "Running";
  status.reason = "Training";
  status.start_time = "2026-01-01T00:00:00Z";
  status.completion_time = "2026-01-01T01:00:00Z";
  status.launcher_term = 2;
  status.has_trained = true;
  status.conditions = {{.type = kWorkersReady,
                        .status = ConditionStatus::kTrue,
                        .reason = "WorkersReady",
                        .message = "3 of 3",
                        .last_transition_time = "2026-01-01T00:00:00Z",
                        .observed_generation = 3}};
  status.workers = {.desired = 3, .replicas = 3, .ready = 2, .members = 1};
  status.selector = "a=b";
  status.elasticity_mode = ElasticityMode::kRestart;
  status.epoch = 4;
  status.world_size = 24;
  status.progress = JobProgress{.step = 10,
                                .total_steps = 20,
                                .percent = 50,
                                .samples_per_second = "1000",
                                .loss = "0.5",
                                .accuracy = "0.9",
                                .estimated_completion_time = "2026-01-01T01:00:00Z"};
  status.last_recovery = Recovery{.epoch = 4,
                                  .cause = "RankKilled",
                                  .worker = "d-worker-0",
                                  .node = "n",
                                  .detected_millis = 12,
                                  .resumed_millis = 90,
                                  .steps_lost = 0,
                                  .from_start = true,
                                  .ran_millis = 723'000};
  status.first_step_time = "2026-11-20T10:00:07Z";
  status.crashes =
      Crashes{.count = 3, .of_launcher = 2, .step = 41, .time = "2026-11-20T10:00:08Z"};
  status.failures = {{.worker = "d-worker-0",
                      .pod_uid = "p",
                      .node = "n",
                      .rank = 1,
                      .start = "s",
                      .exit_code = 3,
                      .signal = 0,
                      .reason = "Error",
                      .last_lines = {"oops"},
                      .stack = "thread 7 python, sleeping\n",
                      .time = "2026-01-01T00:00:00Z"}};
  status.stragglers = {{.worker = "d-worker-1",
                        .pod_uid = "q",
                        .node = "n",
                        .rank = 2,
                        .step_millis = 90,
                        .median_millis = 40,
                        .since = "2026-01-01T00:00:00Z"}};
  return status;
}

TEST(Codec, StatusSurvivesARoundTrip) {
  const TrainingJobStatus status = FullStatus();
  json object = Parse(R"({"metadata": {"name": "d", "uid": "u"}, "spec": {"command": ["x"]}})");
  object["status"] = EncodeStatus(status);

  const auto job = DecodeTrainingJob(object);

  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->status, status);
}

TEST(Codec, MergePatchTurnsOneStatusIntoTheOther) {
  TrainingJobStatus next = FullStatus();
  next.progress.reset();
  next.workers.ready = 3;
  const json from = EncodeStatus(FullStatus());
  const json to = EncodeStatus(next);

  const json patch = kube::MakeMergePatch(from, to);

  json patched = from;
  patched.merge_patch(patch);
  EXPECT_EQ(patched, to);
  EXPECT_EQ(patch, Parse(R"({"progress": null, "workers": {"ready": 3}})"));
}

TEST(Codec, MergePatchOfEqualsIsEmpty) {
  const json status = EncodeStatus(FullStatus());

  EXPECT_TRUE(kube::MakeMergePatch(status, status).empty());
}

// Returns a job whose template has about `bytes` bytes.
json JobWithTemplate(std::size_t bytes) {
  return {
      {"metadata", {{"name", "digits"}, {"namespace", "n"}, {"uid", "u"}}},
      {"spec",
       {{"image", "i"},
        {"command", {"ringmaster-train"}},
        {"worker",
         {{"replicas", 4},
          {"template", {{"metadata", {{"annotations", {{"a", std::string(bytes, 'x')}}}}}}}}}}}};
}

TEST(Codec, TextsThatAreTooLongAreNotKeptAndTheLongestIsNamed) {
  const auto fits = DecodeTrainingJob(JobWithTemplate(250 << 10));
  const auto too_long = DecodeTrainingJob(JobWithTemplate(1400 << 10));

  ASSERT_TRUE(fits.ok() && too_long.ok());
  EXPECT_EQ(fits->spec.texts, TrainingJobSpec::Texts::kAll);
  EXPECT_GT(fits->spec.worker.template_json.size(), 250U << 10);
  EXPECT_EQ(too_long->spec.texts, TrainingJobSpec::Texts::kTooLong);
  EXPECT_EQ(too_long->spec.longest_text, "spec.worker.template");
  EXPECT_EQ(too_long->spec.worker.template_json, "");
  EXPECT_EQ(too_long->spec.worker.replicas, 4);
}

TEST(Codec, ManyTextsAreCountedTogether) {
  json object = JobWithTemplate(130 << 10);
  object["spec"]["launcher"] = {{"template", object["spec"]["worker"]["template"]}};

  EXPECT_EQ(DecodeTrainingJob(object)->spec.texts, TrainingJobSpec::Texts::kTooLong);
}

TEST(Codec, NothingOfAPinnedRunIsKeptWithoutABound) {
  const std::string much(300 << 10, 'x');
  const json runs[] = {
      {{"image", much}},
      {{"priorityClassName", much}},
      {{"worker", {{"gpuResource", much}}}},
      {{"network", {{"interfaces", {much}}}}},
      {{"network", {{"excludeInterfaces", {much}}}}},
      {{"worker", {{"rdma", json::object({{much, 1}})}}}},
      {{"checkpoint", {{"volume", json::object()}, {"restoreFrom", {{"path", much}}}}}},
      {{"dataCache", {{"from", json::object()}, {"sizeLimit", much}}}},
      {{"managedBy", much}}};
  for (json run : runs) {
    const std::string field = run.begin().key();
    run["command"] = {"x"};
    run.emplace("image", "i");
    const auto spec = DecodeRunSpec(run);

    ASSERT_TRUE(spec.ok()) << field << ": " << spec.error().message;
    EXPECT_LT(EncodeRunSpec(*spec).dump().size() + spec->managed_by.size(), 1000U) << field;
  }
}

TEST(Codec, OfASuspendedJobOnlyWhatItsStatusSpeaksOfIsKept) {
  json object = JobWithTemplate(1000);
  object["spec"]["command"] = {"ringmaster-train", std::string(3000, 'x'), std::string(3000, 'y')};
  object["spec"]["checkpoint"] = {{"volume", {{"persistentVolumeClaim", {{"claimName", "c"}}}}},
                                  {"onDelete", "Delete"}};
  object["spec"]["elasticity"] = {{"mode", "InPlace"}};
  object["spec"]["suspend"] = true;
  EXPECT_EQ(DecodeTrainingJob(object)->spec.texts, TrainingJobSpec::Texts::kAll)
      << "its Pods may be there";
  object["status"]["conditions"] = {{{"type", "Suspended"}, {"status", "True"}}};

  const TrainingJobSpec spec = DecodeTrainingJob(object)->spec;

  EXPECT_EQ(spec.texts, TrainingJobSpec::Texts::kNotNeeded);
  EXPECT_EQ(spec.worker.template_json, "");
  EXPECT_EQ(spec.command, std::vector<std::string>{"ringmaster-train"});
  EXPECT_EQ(spec.elasticity_mode, ElasticityMode::kInPlace);
  ASSERT_TRUE(spec.checkpoint.has_value());
  EXPECT_EQ(spec.checkpoint->volume_json, "");
  EXPECT_TRUE(spec.DeletesCheckpoints());

  object["spec"]["suspend"] = false;
  EXPECT_EQ(DecodeTrainingJob(object)->spec.texts, TrainingJobSpec::Texts::kAll)
      << "the change that resumes it";
}

TEST(Codec, NoTextsAreKeptOfAJobThatHasEndedOrThatAnotherControllerRuns) {
  json ended = JobWithTemplate(1000);
  ended["status"]["conditions"] = {{{"type", "Succeeded"}, {"status", "True"}}};
  json foreign = JobWithTemplate(1000);
  foreign["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue";
  json ours = JobWithTemplate(1000);
  ours["spec"]["managedBy"] = kManagedByOperator;

  for (const json& object : {ended, foreign}) {
    const TrainingJobSpec spec = DecodeTrainingJob(object)->spec;
    EXPECT_EQ(spec.texts, TrainingJobSpec::Texts::kNotNeeded);
    EXPECT_EQ(spec.worker.template_json, "");
  }
  EXPECT_EQ(DecodeTrainingJob(foreign)->spec.managed_by, "kueue.x-k8s.io/multikueue");
  EXPECT_EQ(DecodeTrainingJob(ours)->spec.texts, TrainingJobSpec::Texts::kAll);
}

TEST(Codec, WhatBecomesOfCheckpointsIsNoPartOfARunAndKeptOfAnEndedJob) {
  json object = JobWithTemplate(1000);
  object["spec"]["checkpoint"] = {{"volume", {{"persistentVolumeClaim", {{"claimName", "c"}}}}},
                                  {"onDelete", "Delete"}};
  object["metadata"]["finalizers"] = {"example.com/other", kFinalizer};
  const TrainingJob running = *DecodeTrainingJob(object);
  EXPECT_TRUE(running.spec.DeletesCheckpoints());
  EXPECT_TRUE(running.held);
  object["spec"]["checkpoint"]["onDelete"] = "Retain";
  EXPECT_EQ(EncodeRunSpec(DecodeTrainingJob(object)->spec), EncodeRunSpec(running.spec));
  EXPECT_FALSE(DecodeRunSpec(EncodeRunSpec(running.spec))->DeletesCheckpoints());

  object["spec"]["checkpoint"]["onDelete"] = "Delete";
  object["status"]["conditions"] = {{{"type", "Succeeded"}, {"status", "True"}}};
  const TrainingJobSpec ended = DecodeTrainingJob(object)->spec;
  EXPECT_TRUE(ended.DeletesCheckpoints());
  EXPECT_EQ(ended.checkpoint->volume_json, "");

  object["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z";
  EXPECT_EQ(DecodeTrainingJob(object)->spec.texts, TrainingJobSpec::Texts::kAll)
      << "a Pod is made of it once more";
  object["spec"]["checkpoint"]["onDelete"] = "Perhaps";
  EXPECT_FALSE(DecodeTrainingJob(object).ok());
}

TEST(Codec, AStatusThatSomebodyFilledIsNotKeptWhole) {
  json object = JobWithTemplate(10);
  const std::string long_text(100'000, 'x');
  object["status"]["conditions"] = {
      {{"type", kWorkersReady}, {"status", "True"}, {"message", long_text}}};
  object["status"]["failures"] = {{{"reason", long_text}, {"lastLines", {long_text}}}};

  const TrainingJobStatus status = DecodeTrainingJob(object)->status;

  EXPECT_EQ(status.conditions.at(0).message.size(), 4096U);
  EXPECT_EQ(status.failures.at(0).reason.size(), 1024U);
  EXPECT_EQ(status.failures.at(0).last_lines.at(0).size(), 1024U);
}

}  // namespace
}  // namespace ringmaster::api
