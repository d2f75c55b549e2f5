#include "operator/api/codec.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/cut_text.h"
#include "common/json/fields.h"
#include "common/json/forms.h"
#include "operator/api/names.h"
#include "operator/api/spec_texts.h"
#include "operator/api/typed_fields.h"
#include "operator/kube/json_access.h"

namespace ringmaster::api {

using nlohmann::json;

namespace {

// Limits for a status's strings: other clients may write them. The CRD limits the length of lists.
constexpr std::size_t kMaxStatusTextBytes = 1024;
constexpr std::size_t kMaxStatusMessageBytes = 4096;

// The names of enum values, in the order of the enums.
constexpr std::array kCleanPodPolicies = {"None", "Running", "All"};
constexpr std::array kDeletions = {"Retain", "Delete"};
constexpr std::array kLaunchModes = {"PerSlot", "PerWorker"};
constexpr std::array kInjectModes = {"Auto", "InitContainer", "ImageVolume", "None"};
constexpr std::array kElasticityModes = {"InPlace", "Restart"};
constexpr std::array kConditionStatuses = {"True", "False", "Unknown"};

struct AsMessage {
  json Write(const std::string& text) const { return text; }
  std::string Read(const json& value, std::string& text) const {
    if (!value.is_string()) return "expected text";
    text = CutText(value.get<std::string>(), kMaxStatusMessageBytes);
    return {};
  }
};

// Converts an object that is stored as text instead of a JSON tree.
struct AsObject {
  json Write(const std::string& text) const {
    Result<json> parsed = ParseJson(text);
    return parsed.ok() ? *std::move(parsed) : json(text);
  }
  std::string Read(const json& value, std::string& text) const {
    if (!value.is_object()) return "expected an object";
    text = DumpJson(value);
    return {};
  }
};

// Converts a quantity of bytes, which may be written as a number.
struct AsQuantity {
  json Write(const std::string& text) const { return text; }
  std::string Read(const json& value, std::string& text) const {
    if (!value.is_string() && !value.is_number_integer()) return "expected a quantity";
    text = value.is_string() ? value.get<std::string>() : value.dump();
    return {};
  }
};

// Describes fields that occur in both spec and status.
void DescribeMode(auto& b, auto& mode) { b.Sparse("mode", mode, {}, AsWord(kElasticityModes)); }

}  // namespace

// --- spec: all fields of the API, or only the fields of a run for EncodeRunSpec()

void Describe(auto& a, Is<WorkerSpec> auto& v) {
  a.Sparse("replicas", v.replicas, 1);
  a.Sparse("minReplicas", v.min_replicas);
  a.Sparse("maxReplicas", v.max_replicas);
  a.Sparse("gpuResource", v.gpu_resource);
  a.Sparse("privileged", v.privileged);
  a.Sparse("ipcLock", v.ipc_lock);
  a.Sparse("rdma", v.rdma);
  a.Sparse("template", v.template_json, "", AsObject());
}

void Describe(auto& a, Is<CheckpointSpec> auto& v) {
  a.Sparse("volume", v.volume_json, "", AsObject());
  a.Check(!v.volume_json.empty(), "volume", "is missing");
  a.Optional("everySteps", v.every_steps);
  a.Optional("keep", v.keep);
  a.Sparse("onDelete", v.delete_with_job, false, AsWord(kDeletions));
  const auto restore_from = [&v](auto& b) {
    b.Sparse("job", v.restore_job);
    b.Sparse("path", v.restore_path);
    b.Check(v.restore_job.empty() != v.restore_path.empty(), "job",
            "or path is required, but not both");
  };
  a.Inside("restoreFrom", restore_from, /*even_if_empty=*/false);
}

void Describe(auto& a, Is<DataCacheSpec> auto& v) {
  a.Sparse("from", v.from_json, "", AsObject());
  a.Check(!v.from_json.empty(), "from", "is missing");
  a.Sparse("subPath", v.sub_path);
  a.Field("sizeLimit", v.size_limit, AsQuantity());
  a.Check(!v.size_limit.empty(), "sizeLimit", "is empty");
}

void Describe(auto& a, Is<RestartLimit> auto& v) {
  a.Optional("limit", v.limit);
  a.Optional("windowSeconds", v.window);
  a.Optional("crashLimit", v.crash_limit);
  a.Sparse("failOnExitCodes", v.fail_codes);
  a.Sparse("ignoreExitCodes", v.ignored_codes);
}

void Describe(auto& a, Is<FaultTolerance> auto& v) {
  a.Sparse("lostAfterMilliseconds", v.lost_after_millis);
  a.Sparse("stallAfterSeconds", v.stall_after);
  a.Sparse("loadTimeoutSeconds", v.load_timeout);
  a.Sparse("connectTimeoutSeconds", v.connect_timeout);
  a.Sparse("stopGraceSeconds", v.stop_grace);
}

void Describe(auto& a, Is<RunPolicy> auto& v) {
  a.Sparse("activeDeadlineSeconds", v.active_deadline);
  a.Sparse("startTimeoutSeconds", v.start_timeout);
  a.Sparse("ttlSecondsAfterSuccess", v.ttl_after_success);
  a.Sparse("ttlSecondsAfterFailure", v.ttl_after_failure);
  a.Sparse("cleanPodPolicy", v.clean_pods, CleanPodPolicy::kStillRunning,
           AsWord(kCleanPodPolicies));
  a.Sparse("restart", v.restart);
}

void Describe(auto& a, Is<TrainingJobSpec> auto& v) {
  a.Optional("image", v.image);
  a.Optional("command", v.command);
  a.Sparse("profile", v.profile);
  a.Sparse("slotsPerWorker", v.slots_per_worker);
  a.Sparse("launchMode", v.launch_mode, LaunchMode::kPerSlot, AsWord(kLaunchModes));
  a.Sparse("inject", v.inject, InjectMode::kAuto, AsWord(kInjectModes));
  a.Inside(
      "elasticity",
      [&v](auto& b) {
        DescribeMode(b, v.elasticity_mode);
        b.Sparse("allowedSizes", v.allowed_sizes);
      },
      /*even_if_empty=*/false);
  a.Optional("worker", v.worker);
  a.Inside("launcher",
           [&v](auto& b) { b.Sparse("template", v.launcher_template_json, "", AsObject()); });
  a.Sparse("checkpoint", v.checkpoint);
  a.Sparse("dataCache", v.data_cache);
  a.Inside("mpi", [&v](auto& b) {
    b.Sparse("extraArgs", v.mpi_extra_args);
    b.Sparse("passEnv", v.mpi_pass_env);
    b.Sparse("launchAgent", v.mpi_launch_agent, control::LaunchAgent::kAuto,
             AsWord(control::kLaunchAgents));
  });
  a.Inside("network", [&v](auto& b) {
    b.Sparse("hostNetwork", v.host_network);
    b.Sparse("interfaces", v.interfaces.include);
    b.Sparse("excludeInterfaces", v.interfaces.exclude);
    b.Sparse("sshPort", v.ssh_port);
  });
  a.Sparse("faultTolerance", v.fault_tolerance);
  a.Inside(
      "scheduling", [&v](auto& b) { b.Sparse("startWaitSeconds", v.start_wait); },
      /*even_if_empty=*/false);
  a.Sparse("runPolicy", v.run_policy);
  a.Sparse("suspend", v.suspend);
  a.Sparse("managedBy", v.managed_by);
}

// --- status

void Describe(auto& a, Is<Condition> auto& v) {
  a.Field("type", v.type);
  a.Field("status", v.status, AsWord(kConditionStatuses, ConditionStatus::kUnknown));
  a.Field("reason", v.reason);
  a.Field("message", v.message, AsMessage());
  a.Field("lastTransitionTime", v.last_transition_time);
  a.Sparse("observedGeneration", v.observed_generation);
}

void Describe(auto& a, Is<WorkerCounts> auto& v) {
  a.Field("desired", v.desired);
  a.Field("replicas", v.replicas);
  a.Field("ready", v.ready);
  a.Field("members", v.members);
}

void Describe(auto& a, Is<JobProgress> auto& v) {
  a.Field("step", v.step);
  a.Sparse("totalSteps", v.total_steps);
  a.Sparse("percent", v.percent);
  a.Sparse("samplesPerSecond", v.samples_per_second);
  a.Sparse("loss", v.loss);
  a.Sparse("accuracy", v.accuracy);
  a.Sparse("estimatedCompletionTime", v.estimated_completion_time);
}

void Describe(auto& a, Is<CheckpointStatus> auto& v) {
  a.Field("step", v.step);
  a.Sparse("time", v.time);
  a.Sparse("bytes", v.bytes);
}

void Describe(auto& a, Is<Recovery> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("cause", v.cause);
  a.Sparse("worker", v.worker);
  a.Sparse("node", v.node);
  a.Field("detectedMilliseconds", v.detected_millis);
  a.Field("resumedMilliseconds", v.resumed_millis);
  a.Field("stepsLost", v.steps_lost);
  a.Sparse("fromStart", v.from_start);
  a.Sparse("ranMilliseconds", v.ran_millis);
}

void Describe(auto& a, Is<Crashes> auto& v) {
  a.Field("count", v.count);
  a.Field("step", v.step);
  a.Sparse("time", v.time);
}

void Describe(auto& a, Is<Failure> auto& v) {
  a.Sparse("worker", v.worker);
  a.Sparse("podUID", v.pod_uid);
  a.Sparse("node", v.node);
  a.Sparse("rank", v.rank, -1);
  a.Sparse("start", v.start);
  a.Sparse("exitCode", v.exit_code, -1);
  a.Sparse("signal", v.signal);
  a.Field("reason", v.reason);
  a.Sparse("lastLines", v.last_lines);
  a.Sparse("stack", v.stack, "", AsMessage());
  a.Field("time", v.time);
}

void Describe(auto& a, Is<Straggler> auto& v) {
  a.Field("worker", v.worker);
  a.Field("podUID", v.pod_uid);
  a.Sparse("node", v.node);
  a.Field("rank", v.rank);
  a.Field("stepMilliseconds", v.step_millis);
  a.Field("medianMilliseconds", v.median_millis);
  a.Field("since", v.since);
}

void Describe(auto& a, Is<TrainingJobStatus> auto& v) {
  a.Field("observedGeneration", v.observed_generation);
  a.Sparse("state", v.state);
  a.Sparse("reason", v.reason);
  a.Sparse("startTime", v.start_time);
  a.Sparse("firstStepTime", v.first_step_time);
  a.Sparse("completionTime", v.completion_time);
  a.Sparse("installation", v.installation);
  a.Sparse("profile", v.profile);
  a.Field("conditions", v.conditions);
  a.Field("workers", v.workers);
  a.Sparse("selector", v.selector);
  a.Inside(
      "elasticity", [&v](auto& b) { DescribeMode(b, v.elasticity_mode); },
      /*even_if_empty=*/false);
  a.Sparse("startedBy", v.started_by);
  a.Sparse("launchAgent", v.launch_agent);
  a.Field("epoch", v.epoch);
  a.Field("worldSize", v.world_size);
  a.Sparse("progress", v.progress);
  a.Sparse("checkpoint", v.checkpoint);
  a.Sparse("lastRecovery", v.last_recovery);
  a.Sparse("crashes", v.crashes);
  a.Sparse("failures", v.failures);
  a.Sparse("stragglers", v.stragglers);
  a.Inside("internal", [&v](auto& b) {  // after `crashes`: it contains a field of v.crashes
    b.Field("launcherTerm", v.launcher_term);
    b.Sparse("hasTrained", v.has_trained);
    if (v.crashes) b.Sparse("launcherCrashes", v.crashes->of_launcher);
  });
}

namespace {

Result<TrainingJobSpec> ReadSpec(const json& value) {
  Result<TrainingJobSpec> spec = FromJson<TrainingJobSpec>(value, "spec");
  if (!spec.ok()) {
    return Error{ErrorKind::kInvalid,
                 spec.error().message + "; apply the CRD that came with this operator"};
  }
  LowerTypedFields(value, *spec);
  WorkerSpec& worker = spec->worker;
  if (worker.max_replicas) worker.replicas = std::min(worker.replicas, *worker.max_replicas);
  return spec;
}

constexpr std::size_t kMaxInstallationBytes = 512;  // annotations can have 256 KiB

bool HasFinalizer(const json& object) {
  const json& finalizers = kube::GetArray(object, {"metadata", "finalizers"});
  return std::find(finalizers.begin(), finalizers.end(), json(kFinalizer)) != finalizers.end();
}

}  // namespace

Result<TrainingJob> DecodeWithoutSpec(const json& object) {
  TrainingJob job;
  job.ns = kube::GetString(object, {"metadata", "namespace"});
  job.name = kube::GetString(object, {"metadata", "name"});
  job.uid = kube::GetString(object, {"metadata", "uid"});
  job.resource_version = kube::GetString(object, {"metadata", "resourceVersion"});
  job.created_at = kube::GetString(object, {"metadata", "creationTimestamp"});
  job.generation = kube::GetInt64(object, {"metadata", "generation"}).value_or(0);
  job.deleting = kube::Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
  job.held = HasFinalizer(object);
  job.installation =
      CutText(kube::GetString(object, {"metadata", "annotations", kAnnotationInstallation}),
              kMaxInstallationBytes);
  if (job.name.empty() || job.uid.empty()) {
    return Error{ErrorKind::kInvalid, "its metadata has no name or uid"};
  }
  // The operator owns the status, so it ignores invalid parts and replaces them.
  if (const json* status = kube::Find(object, {"status"})) {
    job.status = FromJsonLeniently<TrainingJobStatus>(*status, kMaxStatusTextBytes);
  }
  return job;
}

Result<TrainingJob> DecodeTrainingJob(const json& object) {
  return DecodeTrainingJobWithImage(object, "");
}

Result<TrainingJob> DecodeTrainingJobWithImage(const json& object,
                                               const std::string& default_image) {
  Result<TrainingJob> job = DecodeWithoutSpec(object);
  if (!job.ok()) return job;
  static const json kNone;
  const json* written = kube::Find(object, {"spec"});
  auto spec = ReadSpec(written == nullptr ? kNone : *written);
  if (!spec.ok()) return spec.error();
  job->spec = *std::move(spec);
  job->has_default_image = job->spec.image.empty();
  if (job->has_default_image) job->spec.image = default_image;
  if (NeedsTexts(*job)) {
    BoundTexts(job->spec);
  } else {
    LeaveTextsOut(TrainingJobSpec::Texts::kNotNeeded, job->spec);
  }
  return job;
}

json EncodeRunSpec(const TrainingJobSpec& spec) {
  TrainingJobSpec run = spec;
  run.worker.replicas = WorkerSpec().replicas;
  run.worker.min_replicas.reset();
  run.worker.max_replicas.reset();
  run.run_policy = {};
  run.run_policy.restart = spec.run_policy.restart;
  run.suspend = false;
  run.managed_by.clear();
  run.profile.clear();
  if (run.checkpoint) run.checkpoint->delete_with_job = false;
  json out = ToJson(run);
  if (run.texts != TrainingJobSpec::Texts::kAll)
    out["withoutTexts"] = run.longest_text;  // makes the document differ from all run specs
  for (const FieldProblem& problem : spec.problems) out["problems"][problem.path] = problem.message;
  return out;
}

Result<TrainingJobSpec> DecodeRunSpec(const json& run_spec) {
  auto spec = ReadSpec(run_spec);
  if (!spec.ok()) return spec;
  spec->suspend = false;     // not part of a run spec
  spec->managed_by.clear();  // these are not part of a run spec and may be long
  spec->profile.clear();
  BoundTexts(*spec);
  return spec;
}

TrainingJobSpec SpecOfRun(const TrainingJobSpec& run, const TrainingJobSpec& today) {
  TrainingJobSpec spec = run;
  spec.worker.replicas = today.worker.replicas;
  spec.worker.min_replicas = today.worker.min_replicas;
  spec.worker.max_replicas = today.worker.max_replicas;
  spec.typed_fields = TypedFieldsOf(today, run);
  spec.run_policy = today.run_policy;
  spec.suspend = today.suspend;
  spec.managed_by = today.managed_by;
  spec.profile = today.profile;
  spec.run_policy.restart = run.run_policy.restart;
  if (spec.checkpoint) spec.checkpoint->delete_with_job = today.DeletesCheckpoints();
  return spec;
}

json EncodeStatus(const TrainingJobStatus& status) { return ToJson(status); }

const char* ToString(ConditionStatus status) {
  return kConditionStatuses[static_cast<std::size_t>(status)];
}

}  // namespace ringmaster::api
