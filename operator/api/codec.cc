#include "operator/api/codec.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/cut_text.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/kube/json_access.h"

namespace ringmaster::api {

using nlohmann::json;

namespace {

Error WrongType(const std::string& field, const char* wanted) {
  return {ErrorKind::kInvalid, "the field " + field + " is not " + wanted +
                                   "; apply the CRD that came with this operator"};
}

Result<std::optional<int>> ReadInt(const json& object, const char* field, const std::string& path) {
  const json* value = kube::Find(object, {field});
  if (value == nullptr) return std::optional<int>();
  const std::optional<int32_t> number = kube::GetInt32(object, {field});
  if (!number) return WrongType(path, "a whole number");
  return std::optional<int>(*number);
}

Result<std::vector<std::string>> ReadStrings(const json& object, const char* field,
                                             const std::string& path) {
  const json* value = kube::Find(object, {field});
  std::vector<std::string> strings;
  if (value == nullptr) return strings;
  if (!value->is_array()) return WrongType(path, "a list");
  for (const json& item : *value) {
    if (!item.is_string()) return WrongType(path, "a list of strings");
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

// The template as text, so that it can be kept without a JSON tree.
Result<std::string> ReadTemplate(const json& parent, const std::string& path) {
  const json* value = kube::Find(parent, {"template"});
  if (value == nullptr) return std::string();
  if (!value->is_object()) return WrongType(path, "an object");
  return kube::DumpJson(*value);
}

Result<void> ReadWorker(const json& spec, WorkerSpec& worker) {
  const json* object = kube::Find(spec, {"worker"});
  if (object == nullptr) return {};
  const auto replicas = ReadInt(*object, "replicas", "spec.worker.replicas");
  if (!replicas.ok()) return replicas.error();
  worker.replicas = replicas->value_or(1);
  const auto least = ReadInt(*object, "minReplicas", "spec.worker.minReplicas");
  if (!least.ok()) return least.error();
  worker.min_replicas = *least;
  const auto most = ReadInt(*object, "maxReplicas", "spec.worker.maxReplicas");
  if (!most.ok()) return most.error();
  worker.max_replicas = *most;
  if (*most) worker.replicas = std::min(worker.replicas, **most);
  auto pod_template = ReadTemplate(*object, "spec.worker.template");
  if (!pod_template.ok()) return pod_template.error();
  worker.template_json = *std::move(pod_template);
  return {};
}

Result<void> ReadPrivileges(const json& network, TrainingJobSpec& out) {
  for (const auto& [field, value] :
       {std::pair("hostNetwork", &out.host_network), std::pair("privileged", &out.privileged),
        std::pair("ipcLock", &out.ipc_lock)}) {
    const json* found = kube::Find(network, {field});
    if (found == nullptr) continue;
    if (!found->is_boolean()) {
      return WrongType(std::string("spec.network.") + field, "true or false");
    }
    *value = found->get<bool>();
  }
  const json* devices = kube::Find(network, {"rdmaDevices"});
  if (devices == nullptr) return {};
  if (!devices->is_object()) return WrongType("spec.network.rdmaDevices", "an object");
  for (const auto& [resource, count] : devices->items()) {
    if (!count.is_number_integer()) {
      return WrongType("spec.network.rdmaDevices[" + resource + "]", "a whole number");
    }
    out.rdma_devices[resource] = count.get<int>();
  }
  return {};
}

Result<void> ReadMpiAndNetwork(const json& spec, TrainingJobSpec& out) {
  if (const json* mpi = kube::Find(spec, {"mpi"})) {
    auto extra = ReadStrings(*mpi, "extraArgs", "spec.mpi.extraArgs");
    if (!extra.ok()) return extra.error();
    out.mpi_extra_args = *std::move(extra);
    auto names = ReadStrings(*mpi, "env", "spec.mpi.env");
    if (!names.ok()) return names.error();
    out.mpi_env = *std::move(names);
  }
  if (const json* network = kube::Find(spec, {"network"})) {
    out.network_interface = kube::GetString(*network, {"interface"});
    const auto port = ReadInt(*network, "sshPort", "spec.network.sshPort");
    if (!port.ok()) return port.error();
    out.ssh_port = port->value_or(0);
    return ReadPrivileges(*network, out);
  }
  return {};
}

Result<void> ReadCheckpoint(const json& spec, std::optional<CheckpointSpec>& out) {
  const json* object = kube::Find(spec, {"checkpoint"});
  if (object == nullptr) return {};
  if (!object->is_object()) return WrongType("spec.checkpoint", "an object");
  CheckpointSpec checkpoint;
  const json* volume = kube::Find(*object, {"volume"});
  if (volume == nullptr || !volume->is_object()) {
    return WrongType("spec.checkpoint.volume", "an object");
  }
  checkpoint.volume_json = kube::DumpJson(*volume);
  if (kube::Find(*object, {"everySteps"}) != nullptr) {
    const auto every = kube::GetInt64(*object, {"everySteps"});
    if (!every) return WrongType("spec.checkpoint.everySteps", "a whole number");
    checkpoint.every_steps = *every;
  }
  const auto keep = ReadInt(*object, "keep", "spec.checkpoint.keep");
  if (!keep.ok()) return keep.error();
  checkpoint.keep = keep->value_or(checkpoint.keep);
  const std::string on_delete = kube::GetString(*object, {"onDelete"}, "Retain");
  if (on_delete != "Retain" && on_delete != "Delete") {
    return WrongType("spec.checkpoint.onDelete", "one of Retain and Delete");
  }
  checkpoint.delete_with_job = on_delete == "Delete";
  if (const json* from = kube::Find(*object, {"restoreFrom"})) {
    if (!from->is_object()) return WrongType("spec.checkpoint.restoreFrom", "an object");
    checkpoint.restore_job = kube::GetString(*from, {"job"});
    checkpoint.restore_path = kube::GetString(*from, {"path"});
    if (checkpoint.restore_job.empty() == checkpoint.restore_path.empty()) {
      return WrongType("spec.checkpoint.restoreFrom", "an object with either job or path");
    }
  }
  out = std::move(checkpoint);
  return {};
}

Result<void> ReadDataCache(const json& spec, std::optional<DataCacheSpec>& out) {
  const json* object = kube::Find(spec, {"dataCache"});
  if (object == nullptr) return {};
  if (!object->is_object()) return WrongType("spec.dataCache", "an object");
  const json* from = kube::Find(*object, {"from"});
  if (from == nullptr || !from->is_object()) return WrongType("spec.dataCache.from", "an object");
  DataCacheSpec cache{.from_json = kube::DumpJson(*from),
                      .sub_path = kube::GetString(*object, {"subPath"}),
                      .size_limit = kube::GetString(*object, {"sizeLimit"})};
  if (cache.size_limit.empty()) return WrongType("spec.dataCache.sizeLimit", "a size");
  out = std::move(cache);
  return {};
}

Result<void> ReadSeconds(const json& object, const char* field, const std::string& path,
                         std::optional<std::chrono::seconds>& out) {
  const auto seconds = ReadInt(object, field, path + "." + field);
  if (!seconds.ok()) return seconds.error();
  if (*seconds) out = std::chrono::seconds(**seconds);
  return {};
}

Result<void> ReadExitCodes(const json& restart, const char* field, std::vector<int>& out) {
  const json* codes = kube::Find(restart, {field});
  if (codes == nullptr) return {};
  const std::string path = std::string("spec.runPolicy.restart.") + field;
  if (!codes->is_array()) return WrongType(path, "a list of numbers");
  for (const json& code : *codes) {
    if (!code.is_number_integer()) return WrongType(path, "a list of numbers");
    out.push_back(code.get<int>());
  }
  return {};
}

Result<void> ReadRestart(const json& policy, std::optional<RestartLimit>& out) {
  const json* object = kube::Find(policy, {"restart"});
  if (object == nullptr) return {};
  if (!object->is_object()) return WrongType("spec.runPolicy.restart", "an object");
  RestartLimit restart;
  const auto limit = ReadInt(*object, "limit", "spec.runPolicy.restart.limit");
  if (!limit.ok()) return limit.error();
  restart.limit = limit->value_or(restart.limit);
  const auto window = ReadInt(*object, "windowSeconds", "spec.runPolicy.restart.windowSeconds");
  if (!window.ok()) return window.error();
  if (*window) restart.window = std::chrono::seconds(**window);
  const auto crashes = ReadInt(*object, "crashLimit", "spec.runPolicy.restart.crashLimit");
  if (!crashes.ok()) return crashes.error();
  restart.crash_limit = crashes->value_or(restart.crash_limit);
  for (const auto& [field, codes] : {std::pair("failOnExitCodes", &restart.fail_codes),
                                     std::pair("ignoreExitCodes", &restart.ignored_codes)}) {
    if (auto read = ReadExitCodes(*object, field, *codes); !read.ok()) return read;
  }
  out = std::move(restart);
  return {};
}

Result<CleanPodPolicy> ReadCleanPodPolicy(const json& policy) {
  const std::string text = kube::GetString(policy, {"cleanPodPolicy"}, "Running");
  if (text == "None") return CleanPodPolicy::kNone;
  if (text == "Running") return CleanPodPolicy::kRunning;
  if (text == "All") return CleanPodPolicy::kAll;
  return WrongType("spec.runPolicy.cleanPodPolicy", "one of None, Running and All");
}

Result<void> ReadRunPolicy(const json& spec, RunPolicy& out) {
  const std::string path = "spec.runPolicy";
  const json* object = kube::Find(spec, {"runPolicy"});
  if (object == nullptr) return {};
  if (!object->is_object()) return WrongType(path, "an object");
  if (const json* suspend = kube::Find(*object, {"suspend"})) {
    if (!suspend->is_boolean()) return WrongType(path + ".suspend", "true or false");
    out.suspend = suspend->get<bool>();
  }
  for (const auto& [field, value] : {std::pair("activeDeadlineSeconds", &out.active_deadline),
                                     std::pair("startTimeoutSeconds", &out.start_timeout),
                                     std::pair("ttlSecondsAfterSuccess", &out.ttl_after_success),
                                     std::pair("ttlSecondsAfterFailure", &out.ttl_after_failure)}) {
    if (auto read = ReadSeconds(*object, field, path, *value); !read.ok()) return read.error();
  }
  const auto clean = ReadCleanPodPolicy(*object);
  if (!clean.ok()) return clean.error();
  out.clean_pods = *clean;
  out.managed_by = kube::GetString(*object, {"managedBy"});
  return ReadRestart(*object, out.restart);
}

Result<TrainingJobSpec> ReadSpec(const json* spec) {
  TrainingJobSpec out;
  if (spec == nullptr || !spec->is_object()) return WrongType("spec", "an object");
  out.image = kube::GetString(*spec, {"image"});
  auto command = ReadStrings(*spec, "command", "spec.command");
  if (!command.ok()) return command.error();
  out.command = *std::move(command);
  const auto slots = ReadInt(*spec, "slotsPerWorker", "spec.slotsPerWorker");
  if (!slots.ok()) return slots.error();
  out.slots_per_worker = *slots;
  if (auto read = ReadWorker(*spec, out.worker); !read.ok()) return read.error();
  if (const json* launcher = kube::Find(*spec, {"launcher"})) {
    auto pod_template = ReadTemplate(*launcher, "spec.launcher.template");
    if (!pod_template.ok()) return pod_template.error();
    out.launcher_template_json = *std::move(pod_template);
  }
  if (auto read = ReadMpiAndNetwork(*spec, out); !read.ok()) return read.error();
  if (auto read = ReadCheckpoint(*spec, out.checkpoint); !read.ok()) return read.error();
  if (auto read = ReadDataCache(*spec, out.data_cache); !read.ok()) return read.error();
  if (auto read = ReadRunPolicy(*spec, out.run_policy); !read.ok()) return read.error();
  return out;
}

ConditionStatus ParseConditionStatus(const std::string& text) {
  if (text == "True") return ConditionStatus::kTrue;
  if (text == "False") return ConditionStatus::kFalse;
  return ConditionStatus::kUnknown;
}

// Whoever may write a job's status could fill it; the CRD bounds lists, we bound texts.
constexpr std::size_t kMaxStatusTextBytes = 1024;
constexpr std::size_t kMaxStatusMessageBytes = 4096;

std::string ReadText(const json& object, kube::JsonPath path,
                     std::size_t most_bytes = kMaxStatusTextBytes) {
  return CutText(kube::GetString(object, path), most_bytes);
}

Condition ReadCondition(const json& item) {
  return {.type = ReadText(item, {"type"}),
          .status = ParseConditionStatus(ReadText(item, {"status"})),
          .reason = ReadText(item, {"reason"}),
          .message = ReadText(item, {"message"}, kMaxStatusMessageBytes),
          .last_transition_time = ReadText(item, {"lastTransitionTime"}),
          .observed_generation = kube::GetInt64(item, {"observedGeneration"}).value_or(0)};
}

Failure ReadFailure(const json& item) {
  Failure failure{.worker = ReadText(item, {"worker"}),
                  .pod_uid = ReadText(item, {"podUID"}),
                  .node = ReadText(item, {"node"}),
                  .rank = kube::GetInt32(item, {"rank"}).value_or(-1),
                  .start = ReadText(item, {"start"}),
                  .exit_code = kube::GetInt32(item, {"exitCode"}).value_or(-1),
                  .signal = kube::GetInt32(item, {"signal"}).value_or(0),
                  .reason = ReadText(item, {"reason"}),
                  .last_lines = {},
                  .stack = ReadText(item, {"stack"}, kMaxStatusMessageBytes),
                  .time = ReadText(item, {"time"})};
  for (const json& line : kube::GetArray(item, {"lastLines"})) {
    if (line.is_string()) failure.last_lines.push_back(ReadText(line, {}));
  }
  return failure;
}

Straggler ReadStraggler(const json& item) {
  return {.worker = ReadText(item, {"worker"}),
          .pod_uid = ReadText(item, {"podUID"}),
          .node = ReadText(item, {"node"}),
          .rank = kube::GetInt32(item, {"rank"}).value_or(0),
          .step_millis = kube::GetInt64(item, {"stepMillis"}).value_or(0),
          .median_millis = kube::GetInt64(item, {"medianMillis"}).value_or(0),
          .since = ReadText(item, {"since"})};
}

Recovery ReadRecovery(const json& item) {
  return {.epoch = kube::GetInt64(item, {"epoch"}).value_or(0),
          .cause = ReadText(item, {"cause"}),
          .worker = ReadText(item, {"worker"}),
          .node = ReadText(item, {"node"}),
          .detected_millis = kube::GetInt64(item, {"detectedMillis"}).value_or(0),
          .resumed_millis = kube::GetInt64(item, {"resumedMillis"}).value_or(0),
          .steps_lost = kube::GetInt64(item, {"stepsLost"}).value_or(0),
          .from_start = kube::GetBool(item, {"fromStart"}),
          .ran_millis = kube::GetInt64(item, {"ranMillis"}).value_or(0)};
}

JobProgress ReadProgress(const json& progress) {
  JobProgress out{.step = kube::GetInt64(progress, {"step"}).value_or(0),
                  .total_steps = kube::GetInt64(progress, {"totalSteps"}).value_or(0),
                  .percent = std::nullopt,
                  .samples_per_second = kube::GetInt64(progress, {"samplesPerSecond"}).value_or(0),
                  .loss = ReadText(progress, {"loss"}),
                  .accuracy = ReadText(progress, {"accuracy"}),
                  .estimated_completion_time = ReadText(progress, {"estimatedCompletionTime"})};
  if (const auto percent = kube::GetInt32(progress, {"percent"})) out.percent = *percent;
  return out;
}

// The status is ours: what we cannot read of it counts as absent, and is written anew.
TrainingJobStatus ReadStatus(const json& object) {
  TrainingJobStatus out;
  const json* status = kube::Find(object, {"status"});
  if (status == nullptr) return out;
  out.observed_generation = kube::GetInt64(*status, {"observedGeneration"}).value_or(0);
  out.state = ReadText(*status, {"state"});
  out.reason = ReadText(*status, {"reason"});
  out.start_time = ReadText(*status, {"startTime"});
  out.first_step_time = ReadText(*status, {"firstStepTime"});
  out.completion_time = ReadText(*status, {"completionTime"});
  out.launcher_term = kube::GetInt64(*status, {"launcherTerm"}).value_or(0);
  out.installation = ReadText(*status, {"installation"});
  for (const json& item : kube::GetArray(*status, {"conditions"})) {
    out.conditions.push_back(ReadCondition(item));
  }
  out.workers = {.desired = kube::GetInt32(*status, {"workers", "desired"}).value_or(0),
                 .replicas = kube::GetInt32(*status, {"workers", "replicas"}).value_or(0),
                 .ready = kube::GetInt32(*status, {"workers", "ready"}).value_or(0),
                 .members = kube::GetInt32(*status, {"workers", "members"}).value_or(0)};
  out.selector = ReadText(*status, {"selector"});
  out.epoch = kube::GetInt64(*status, {"epoch"}).value_or(0);
  out.world_size = kube::GetInt32(*status, {"worldSize"}).value_or(0);
  if (const json* progress = kube::Find(*status, {"progress"})) {
    out.progress = ReadProgress(*progress);
  }
  if (const json* checkpoint = kube::Find(*status, {"checkpoint"})) {
    out.checkpoint = {.step = kube::GetInt64(*checkpoint, {"step"}).value_or(0),
                      .time = ReadText(*checkpoint, {"time"}),
                      .bytes = kube::GetInt64(*checkpoint, {"bytes"}).value_or(0)};
  }
  if (const json* recovery = kube::Find(*status, {"lastRecovery"})) {
    out.last_recovery = ReadRecovery(*recovery);
  }
  if (const json* crashes = kube::Find(*status, {"crashes"})) {
    out.crashes = {.count = kube::GetInt32(*crashes, {"count"}).value_or(0),
                   .of_launcher = kube::GetInt32(*crashes, {"ofLauncher"}).value_or(0),
                   .step = kube::GetInt64(*crashes, {"step"}).value_or(0),
                   .time = ReadText(*crashes, {"time"})};
  }
  for (const json& item : kube::GetArray(*status, {"failures"})) {
    out.failures.push_back(ReadFailure(item));
  }
  for (const json& item : kube::GetArray(*status, {"stragglers"})) {
    out.stragglers.push_back(ReadStraggler(item));
  }
  return out;
}

json EncodeCondition(const Condition& condition) {
  json out{{"type", condition.type},
           {"status", ToString(condition.status)},
           {"reason", condition.reason},
           {"message", condition.message},
           {"lastTransitionTime", condition.last_transition_time}};
  if (condition.observed_generation > 0) {
    out["observedGeneration"] = condition.observed_generation;
  }
  return out;
}

void SetText(json& object, const char* field, const std::string& text) {
  if (!text.empty()) object[field] = text;
}

// Texts of JSON come from DumpJson(); one that does not is kept as a string.
json Document(const std::string& text) {
  Result<json> parsed = kube::ParseJson(text);
  return parsed.ok() ? *std::move(parsed) : json(text);
}

void SetDocument(json& object, const char* field, const std::string& text) {
  if (!text.empty()) object[field] = Document(text);
}

// Each struct is taken apart by name, so that a new field does not compile until it is here.
json EncodeRestart(const RestartLimit& restart) {
  const auto& [limit, window, crash_limit, fail_codes, ignored_codes] = restart;
  json out{{"limit", limit}, {"windowSeconds", window.count()}, {"crashLimit", crash_limit}};
  if (!fail_codes.empty()) out["failOnExitCodes"] = fail_codes;
  if (!ignored_codes.empty()) out["ignoreExitCodes"] = ignored_codes;
  return out;
}

json EncodeCheckpoint(const CheckpointSpec& checkpoint) {
  // onDelete is no matter of a run: it may change at any time.
  const auto& [volume, every_steps, keep, delete_with_job, restore_job, restore_path] = checkpoint;
  (void)delete_with_job;
  json out{{"everySteps", every_steps}, {"keep", keep}};
  SetDocument(out, "volume", volume);
  if (!restore_job.empty()) out["restoreFrom"]["job"] = restore_job;
  if (!restore_path.empty()) out["restoreFrom"]["path"] = restore_path;
  return out;
}

json EncodeDataCache(const DataCacheSpec& cache) {
  const auto& [from, sub_path, size_limit] = cache;
  json out{{"sizeLimit", size_limit}};
  SetDocument(out, "from", from);
  SetText(out, "subPath", sub_path);
  return out;
}

json EncodeProgress(const JobProgress& progress) {
  json out{{"step", progress.step}, {"samplesPerSecond", progress.samples_per_second}};
  if (progress.total_steps > 0) out["totalSteps"] = progress.total_steps;
  if (progress.percent) out["percent"] = *progress.percent;
  SetText(out, "loss", progress.loss);
  SetText(out, "accuracy", progress.accuracy);
  SetText(out, "estimatedCompletionTime", progress.estimated_completion_time);
  return out;
}

json EncodeRecovery(const Recovery& recovery) {
  json out{{"epoch", recovery.epoch},
           {"cause", recovery.cause},
           {"detectedMillis", recovery.detected_millis},
           {"resumedMillis", recovery.resumed_millis},
           {"stepsLost", recovery.steps_lost}};
  SetText(out, "worker", recovery.worker);
  SetText(out, "node", recovery.node);
  if (recovery.from_start) out["fromStart"] = true;
  if (recovery.ran_millis > 0) out["ranMillis"] = recovery.ran_millis;
  return out;
}

json EncodeFailure(const Failure& failure) {
  json out{{"reason", failure.reason}, {"time", failure.time}};
  SetText(out, "worker", failure.worker);
  SetText(out, "podUID", failure.pod_uid);
  SetText(out, "node", failure.node);
  if (failure.rank >= 0) out["rank"] = failure.rank;
  SetText(out, "start", failure.start);
  if (failure.exit_code >= 0) out["exitCode"] = failure.exit_code;
  if (failure.signal > 0) out["signal"] = failure.signal;
  if (!failure.last_lines.empty()) out["lastLines"] = failure.last_lines;
  SetText(out, "stack", failure.stack);
  return out;
}

json EncodeStraggler(const Straggler& straggler) {
  json out{{"worker", straggler.worker},
           {"podUID", straggler.pod_uid},
           {"rank", straggler.rank},
           {"stepMillis", straggler.step_millis},
           {"medianMillis", straggler.median_millis},
           {"since", straggler.since}};
  SetText(out, "node", straggler.node);
  return out;
}

std::size_t BytesOf(const std::vector<std::string>& texts) {
  std::size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size() + sizeof text;
  return bytes;
}

constexpr std::size_t kShortCommandBytes = 4096;

void LeaveTextsOut(TrainingJobSpec::Texts why, TrainingJobSpec& spec) {
  TrainingJobSpec rest;
  if (spec.image.size() <= kMaxTextBytes) rest.image = std::move(spec.image);
  // What a suspended job goes on from depends on its program.
  if (BytesOf(spec.command) <= kShortCommandBytes) {
    rest.command = std::move(spec.command);
  } else if (!spec.command.empty()) {
    rest.command = {CutText(std::move(spec.command.front()), kShortCommandBytes)};
  }
  rest.slots_per_worker = spec.slots_per_worker;
  rest.worker.replicas = spec.worker.replicas;
  rest.worker.min_replicas = spec.worker.min_replicas;
  rest.worker.max_replicas = spec.worker.max_replicas;
  if (spec.checkpoint) {
    rest.checkpoint = CheckpointSpec{.every_steps = spec.checkpoint->every_steps,
                                     .keep = spec.checkpoint->keep,
                                     .delete_with_job = spec.checkpoint->delete_with_job};
  }
  rest.run_policy = std::move(spec.run_policy);
  rest.texts = why;
  rest.longest_text = std::move(spec.longest_text);
  // A plain assignment would keep the long strings' memory for the short ones.
  std::exchange(spec, std::move(rest));
}

void BoundTexts(TrainingJobSpec& spec) {
  std::size_t names = spec.network_interface.size();
  for (const auto& [name, count] : spec.rdma_devices) names += name.size();
  const std::pair<const char*, std::size_t> fields[] = {
      {"spec.image", spec.image.size()},
      {"spec.command", BytesOf(spec.command)},
      {"spec.network", names},
      {"spec.checkpoint.restoreFrom",
       spec.checkpoint ? spec.checkpoint->restore_job.size() + spec.checkpoint->restore_path.size()
                       : 0},
      {"spec.dataCache",
       spec.data_cache ? spec.data_cache->sub_path.size() + spec.data_cache->size_limit.size() : 0},
      {"spec.worker.template", spec.worker.template_json.size()},
      {"spec.launcher.template", spec.launcher_template_json.size()},
      {"spec.checkpoint.volume", spec.checkpoint ? spec.checkpoint->volume_json.size() : 0},
      {"spec.dataCache.from", spec.data_cache ? spec.data_cache->from_json.size() : 0},
      {"spec.mpi.extraArgs", BytesOf(spec.mpi_extra_args)},
      {"spec.mpi.env", BytesOf(spec.mpi_env)}};
  std::size_t bytes = 0;
  for (const auto& field : fields) bytes += field.second;
  if (bytes <= kMaxTextBytes) return;
  const auto* longest = std::max_element(
      std::begin(fields), std::end(fields),
      [](const auto& one, const auto& other) { return one.second < other.second; });
  spec.longest_text = longest->first;
  LeaveTextsOut(TrainingJobSpec::Texts::kTooLong, spec);
}

bool NeedsTexts(const TrainingJob& job) {
  const std::string& manager = job.spec.run_policy.managed_by;
  // A suspended job comes whole again with the change that resumes it.
  const bool suspended = job.spec.run_policy.suspend && IsTrue(job.status.conditions, kSuspended);
  const bool ended = IsTerminal(job.status);
  const bool makes_pods = (!suspended && !ended) || (job.deleting && job.held);
  return makes_pods && (manager.empty() || manager == kManagedByOperator);
}

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
  if (job.name.empty() || job.uid.empty()) return WrongType("metadata", "complete");
  job.status = ReadStatus(object);
  return job;
}

Result<TrainingJob> DecodeTrainingJob(const json& object) {
  Result<TrainingJob> job = DecodeWithoutSpec(object);
  if (!job.ok()) return job;
  auto spec = ReadSpec(kube::Find(object, {"spec"}));
  if (!spec.ok()) return spec.error();
  job->spec = *std::move(spec);
  if (NeedsTexts(*job)) {
    BoundTexts(job->spec);
  } else {
    LeaveTextsOut(TrainingJobSpec::Texts::kNotNeeded, job->spec);
  }
  return job;
}

json EncodeRunSpec(const TrainingJobSpec& spec) {
  const auto& [image, command, slots_per_worker, worker, launcher_template, checkpoint, data_cache,
               mpi_extra_args, mpi_env, network_interface, ssh_port, host_network, privileged,
               ipc_lock, rdma_devices, run_policy, texts, longest_text] = spec;
  json out{{"image", image}, {"command", command}};
  if (slots_per_worker) out["slotsPerWorker"] = *slots_per_worker;
  SetDocument(out["worker"] = json::object(), "template", worker.template_json);
  SetDocument(out["launcher"] = json::object(), "template", launcher_template);
  if (checkpoint) out["checkpoint"] = EncodeCheckpoint(*checkpoint);
  if (data_cache) out["dataCache"] = EncodeDataCache(*data_cache);
  json& mpi = out["mpi"] = json::object();
  if (!mpi_extra_args.empty()) mpi["extraArgs"] = mpi_extra_args;
  if (!mpi_env.empty()) mpi["env"] = mpi_env;
  json& network = out["network"] = json::object();
  SetText(network, "interface", network_interface);
  if (ssh_port != 0) network["sshPort"] = ssh_port;
  if (host_network) network["hostNetwork"] = true;
  if (privileged) network["privileged"] = true;
  if (ipc_lock) network["ipcLock"] = true;
  if (!rdma_devices.empty()) network["rdmaDevices"] = rdma_devices;
  if (run_policy.restart) {
    out["runPolicy"] = {{"restart", EncodeRestart(*run_policy.restart)}};
  }
  if (texts != TrainingJobSpec::Texts::kAll) out["withoutTexts"] = longest_text;  // no run has it
  return out;
}

Result<TrainingJobSpec> DecodeRunSpec(const json& run_spec) {
  auto spec = ReadSpec(&run_spec);
  if (!spec.ok()) return spec;
  spec->run_policy.managed_by.clear();  // no part of a run; nobody has bounded it
  BoundTexts(*spec);
  return spec;
}

json EncodeStatus(const TrainingJobStatus& status) {
  json out{{"observedGeneration", status.observed_generation},
           {"launcherTerm", status.launcher_term},
           {"epoch", status.epoch},
           {"worldSize", status.world_size},
           {"workers",
            {{"desired", status.workers.desired},
             {"replicas", status.workers.replicas},
             {"ready", status.workers.ready},
             {"members", status.workers.members}}}};
  SetText(out, "state", status.state);
  SetText(out, "reason", status.reason);
  SetText(out, "installation", status.installation);
  SetText(out, "startTime", status.start_time);
  SetText(out, "firstStepTime", status.first_step_time);
  SetText(out, "completionTime", status.completion_time);
  SetText(out, "selector", status.selector);
  json conditions = json::array();
  for (const Condition& condition : status.conditions) {
    conditions.push_back(EncodeCondition(condition));
  }
  out["conditions"] = std::move(conditions);
  if (status.progress) out["progress"] = EncodeProgress(*status.progress);
  if (status.checkpoint) {
    out["checkpoint"] = {{"step", status.checkpoint->step}};
    SetText(out["checkpoint"], "time", status.checkpoint->time);
    if (status.checkpoint->bytes > 0) out["checkpoint"]["bytes"] = status.checkpoint->bytes;
  }
  if (status.last_recovery) out["lastRecovery"] = EncodeRecovery(*status.last_recovery);
  if (status.crashes) {
    out["crashes"] = {{"count", status.crashes->count},
                      {"ofLauncher", status.crashes->of_launcher},
                      {"step", status.crashes->step}};
    SetText(out["crashes"], "time", status.crashes->time);
  }
  if (!status.failures.empty()) {
    json failures = json::array();
    for (const Failure& failure : status.failures) failures.push_back(EncodeFailure(failure));
    out["failures"] = std::move(failures);
  }
  if (!status.stragglers.empty()) {
    json stragglers = json::array();
    for (const Straggler& one : status.stragglers) stragglers.push_back(EncodeStraggler(one));
    out["stragglers"] = std::move(stragglers);
  }
  return out;
}

json MakeMergePatch(const json& from, const json& to) {
  json patch = json::object();
  for (const auto& [key, value] : to.items()) {
    const auto old = from.find(key);
    if (old == from.end()) {
      patch[key] = value;
    } else if (old->is_object() && value.is_object()) {
      json inner = MakeMergePatch(*old, value);
      if (!inner.empty()) patch[key] = std::move(inner);
    } else if (*old != value) {
      patch[key] = value;
    }
  }
  for (const auto& [key, value] : from.items()) {
    if (!to.contains(key)) patch[key] = nullptr;
  }
  return patch;
}

const char* ToString(ConditionStatus status) {
  switch (status) {
    case ConditionStatus::kTrue:
      return "True";
    case ConditionStatus::kFalse:
      return "False";
    case ConditionStatus::kUnknown:
      return "Unknown";
  }
  return "Unknown";
}

}  // namespace ringmaster::api
