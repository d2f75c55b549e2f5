#include "operator/job/manifests/pods.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "common/json/json.h"
#include "operator/api/names.h"
#include "operator/job/admission/gpu_resources.h"
#include "operator/job/admission/volume_policy.h"
#include "operator/job/manifests/manifests.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr char kCredentialsVolume[] = "ringmaster-credentials";
constexpr char kTmpVolume[] = "ringmaster-tmp";
constexpr char kShmVolume[] = "ringmaster-shm";

// Secret volumes belong to root; this group lets a process of any user id read items of mode 0440.
constexpr int kDefaultFsGroup = 1000;
constexpr int kItemMode = 0440;
// Agent and launcher end their processes within a second; the rest is for a slow node.
constexpr int kGraceSeconds = 10;

std::string WithCommas(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

// The object at `field`, made if absent or null.
json& ObjectAt(json& parent, const char* field) {
  json& value = parent[field];
  if (!value.is_object()) value = json::object();
  return value;
}
json& ListAt(json& parent, const char* field) {
  json& value = parent[field];
  if (!value.is_array()) value = json::array();
  return value;
}

void Default(json& object, const char* field, json value) {
  json& have = object[field];
  if (have.is_null()) have = std::move(value);
}

json& ManagedContainer(json& spec, const char* name) {
  json& containers = ListAt(spec, "containers");
  for (json& container : containers) {
    if (kube::GetString(container, {"name"}) == name) return container;
  }
  containers.push_back(json{{"name", name}});
  return containers.back();
}

bool IsRoot(const json& security_context) {
  const json* user = kube::Find(security_context, {"runAsUser"});
  return user != nullptr && *user == json(0);
}

bool RunsAsRoot(const json& spec, const json& container_context) {
  if (kube::Find(container_context, {"runAsUser"}) != nullptr) return IsRoot(container_context);
  const json* of_pod = kube::Find(spec, {"securityContext"});
  return of_pod != nullptr && IsRoot(*of_pod);
}

void RestrictContainer(json& container) {
  json& context = ObjectAt(container, "securityContext");
  if (!kube::GetBool(context, {"privileged"})) Default(context, "allowPrivilegeEscalation", false);
  if (IsRoot(context)) Default(context, "runAsNonRoot", false);
  ObjectAt(context, "capabilities")["drop"] = json::array({"ALL"});
}

bool MountsPath(const json& container, const std::string& path) {
  const json& mounts = kube::GetArray(container, {"volumeMounts"});
  return std::any_of(mounts.begin(), mounts.end(), [&](const json& mount) {
    std::string target = kube::GetString(mount, {"mountPath"});
    while (target.size() > 1 && target.back() == '/') target.pop_back();
    return target == path;
  });
}

// An empty folder at `path`, unless the template mounts something there itself.
void AddScratch(json& spec, json& container, const char* volume, const char* path, json source) {
  if (MountsPath(container, path)) return;
  ListAt(spec, "volumes").push_back({{"name", volume}, {"emptyDir", std::move(source)}});
  ListAt(container, "volumeMounts").push_back({{"name", volume}, {"mountPath", path}});
}

void AddCredentials(json& spec, json& container, const Credentials& credentials,
                    const std::vector<std::string>& items) {
  json paths = json::array();
  for (const std::string& item : items) paths.push_back({{"key", item}, {"path", item}});
  ListAt(spec, "volumes")
      .push_back({{"name", kCredentialsVolume},
                  {"secret",
                   {{"secretName", credentials.secret_name},
                    {"defaultMode", kItemMode},
                    {"items", std::move(paths)}}}});
  ListAt(container, "volumeMounts")
      .push_back({{"name", kCredentialsVolume},
                  {"mountPath", control::kCredentialsDir},
                  {"readOnly", true}});
}

// The kubelet expands $(NAME) in values and takes "$$" for "$": doubled, every "$" stays as it is.
void AddVariable(json& container, const char* name, const std::string& value) {
  std::string literal;
  for (const char c : value) literal.append(c == '$' ? 2 : 1, c);
  ListAt(container, "env").push_back({{"name", name}, {"value", literal}});
}
void AddFieldVariable(json& container, const char* name, const char* field) {
  ListAt(container, "env")
      .push_back({{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", field}}}}}});
}

std::string HashesOf(const Credentials& credentials, const std::vector<std::string>& items) {
  json hashes = json::object();
  for (const std::string& item : items) hashes[item] = credentials.hashes.at(item);
  return hashes.dump();
}

void AddCommonVariables(const PodContext& context, const std::vector<std::string>& items,
                        json& container) {
  AddVariable(container, control::kEnvJobName, context.job().name);
  AddVariable(container, control::kEnvNamespace, context.job().ns);
  AddVariable(container, control::kEnvJobUid, context.job().uid);
  AddFieldVariable(container, control::kEnvPodName, "metadata.name");
  AddFieldVariable(container, control::kEnvPodUid, "metadata.uid");
  AddFieldVariable(container, control::kEnvNodeName, "spec.nodeName");
  AddVariable(container, control::kEnvLaunchSpec,
              control::EncodeLaunchSpec(LaunchSpecOf(context.job().spec)));
  AddVariable(container, control::kEnvItemHashes, HashesOf(context.credentials, items));
}

// The user's volume at its fixed path, and what the trainer's flags take from it.
void AddCheckpoints(const api::CheckpointSpec& checkpoint, json& spec, json& container) {
  json volume = ParseTemplate(checkpoint.volume_json);
  volume["name"] = kCheckpointVolume;
  ListAt(spec, "volumes").push_back(std::move(volume));
  ListAt(container, "volumeMounts")
      .push_back({{"name", kCheckpointVolume}, {"mountPath", control::kCheckpointDir}});
  AddVariable(container, control::kEnvCheckpointDir, control::kCheckpointDir);
  AddVariable(container, control::kEnvCheckpointEvery, std::to_string(checkpoint.every_steps));
  AddVariable(container, control::kEnvCheckpointKeep, std::to_string(checkpoint.keep));
  if (!checkpoint.restore_job.empty()) {
    AddVariable(container, control::kEnvRestoreJob, checkpoint.restore_job);
  }
  if (!checkpoint.restore_path.empty()) {
    AddVariable(container, control::kEnvRestorePath, checkpoint.restore_path);
  }
}

// The user's volume, and the memory volume that the agent fills from it.
void AddDataCache(const api::DataCacheSpec& cache, json& spec, json& container) {
  json source = ParseTemplate(cache.from_json);
  source["name"] = kDataSourceVolume;
  json& volumes = ListAt(spec, "volumes");
  volumes.push_back(std::move(source));
  volumes.push_back({{"name", kDataVolume},
                     {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", cache.size_limit}}}});
  json& mounts = ListAt(container, "volumeMounts");
  mounts.push_back(
      {{"name", kDataSourceVolume}, {"mountPath", control::kDataSourceDir}, {"readOnly", true}});
  mounts.push_back({{"name", kDataVolume}, {"mountPath", control::kDataDir}});
  AddVariable(container, control::kEnvDataSource, control::kDataSourceDir);
  if (!cache.sub_path.empty()) AddVariable(container, control::kEnvDataSubPath, cache.sub_path);
  AddVariable(container, control::kEnvDataDir, control::kDataDir);
}

// What of its host a worker gets, which its profile has allowed. Names of the cluster
// resolve on the host's network too.
void AddHostReach(const api::TrainingJobSpec& job, json& spec, json& container) {
  if (job.host_network) {
    spec["hostNetwork"] = true;
    Default(spec, "dnsPolicy", "ClusterFirstWithHostNet");
  }
  json& context = ObjectAt(container, "securityContext");
  if (job.worker.privileged) {
    context["privileged"] = true;
    context.erase("allowPrivilegeEscalation");
    // Of any other user no capability is in effect.
    context["runAsUser"] = 0;
    context["runAsNonRoot"] = false;
  }
  // What sshd needs to let root log in; of any other user it needs nothing.
  if (RunsAsRoot(spec, context)) {
    for (const char* capability : {"SETGID", "SETUID", "SYS_CHROOT"}) {
      ListAt(ObjectAt(context, "capabilities"), "add").push_back(capability);
    }
  }
  if (job.worker.ipc_lock) ListAt(ObjectAt(context, "capabilities"), "add").push_back("IPC_LOCK");
  if (job.worker.rdma.empty()) return;
  json& resources = ObjectAt(container, "resources");
  for (const auto& [resource, count] : job.worker.rdma) {
    ObjectAt(resources, "limits")[resource] = count;
    // A template's own request would have to be the same.
    const auto requests = resources.find("requests");
    if (requests != resources.end() && requests->is_object()) requests->erase(resource);
  }
}

// What the job leaves unset, agent, launcher and ranks know themselves.
void AddLimit(json& container, const char* name,
              const std::optional<std::chrono::milliseconds>& limit) {
  if (limit) AddVariable(container, name, std::to_string(limit->count()));
}

// One kind of Pod, as far as both are alike.
struct PodKind {
  const std::string& template_json;
  std::string name;
  const char* role;
  const char* container;
  const char* program;
  const char* message_policy;
  const std::vector<std::string>& items;
};

// Returns the managed container within `pod`.
json& FillPod(const PodContext& context, const PodKind& kind, json& pod) {
  const json user = ParseTemplate(kind.template_json);
  pod = {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", {{"name", kind.name}}}};
  for (const char* map : {"labels", "annotations"}) {
    const json* entries = kube::Find(user, {"metadata", map});
    if (entries != nullptr) pod["metadata"][map] = *entries;
  }
  Own(pod, context.job());
  pod["metadata"]["labels"][api::kLabelRole] = kind.role;
  pod["metadata"]["labels"][api::kLabelRevision] = context.revision;
  const json* user_spec = kube::Find(user, {"spec"});
  json& spec = pod["spec"] = user_spec == nullptr ? json::object() : *user_spec;
  spec["restartPolicy"] = "Never";
  spec["automountServiceAccountToken"] = false;
  spec["hostname"] = kind.name;
  spec["subdomain"] = api::WorkerServiceName(context.job().name);
  Default(spec, "enableServiceLinks", false);
  Default(spec, "terminationGracePeriodSeconds", kGraceSeconds);
  json& container = ManagedContainer(spec, kind.container);
  RestrictPod(spec);
  RestrictHostPathMounts(spec);
  Default(container, "image", context.job().spec.image);
  container["command"] = json::array({kind.program});
  container["terminationMessagePolicy"] = kind.message_policy;
  Default(ObjectAt(container, "securityContext"), "readOnlyRootFilesystem", true);
  AddCommonVariables(context, kind.items, container);
  AddScratch(spec, container, kTmpVolume, "/tmp", json::object());
  AddCredentials(spec, container, context.credentials, kind.items);
  return container;
}

// GPUs are what a container asks for, whatever its image says of itself. One that takes some is
// told by what hands them out; what the template says, the job's rules have let through.
void HideGpus(json& spec) {
  for (const char* list : {"initContainers", "containers"}) {
    if (!spec.contains(list) || !spec[list].is_array()) continue;
    for (json& container : spec[list]) {
      const json& variables = kube::GetArray(container, {"env"});
      const bool is_set = std::any_of(variables.begin(), variables.end(), [](const json& variable) {
        return kube::GetString(variable, {"name"}) == kVisibleGpus;
      });
      if (!is_set && !TakesGpus(container)) AddVariable(container, kVisibleGpus, kNoVisibleGpus);
    }
  }
}

}  // namespace

json ParseTemplate(const std::string& text) {
  if (text.empty()) return json::object();
  Result<json> parsed = ParseJson(text);
  return parsed.ok() && parsed->is_object() ? *std::move(parsed) : json::object();
}

void RestrictPod(json& spec) {
  json& context = ObjectAt(spec, "securityContext");
  Default(context, "runAsNonRoot", !IsRoot(context));
  Default(context, "fsGroup", kDefaultFsGroup);
  Default(context, "seccompProfile", json{{"type", "RuntimeDefault"}});
  for (const char* list : {"containers", "initContainers"}) {
    if (!spec.contains(list) || !spec[list].is_array()) continue;
    for (json& container : spec[list]) RestrictContainer(container);
  }
}

json CommonWorkerPod(const PodContext& context, const std::string& launcher_address) {
  const PodKind kind{.template_json = context.job().spec.worker.template_json,
                     .name = {},  // as the index says
                     .role = api::kRoleWorker,
                     .container = control::kWorkerContainer,
                     .program = control::kAgentProgram,
                     .message_policy = "FallbackToLogsOnError",  // its last lines, when it failed
                     .items = WorkerItems()};
  json pod;
  json& container = FillPod(context, kind, pod);
  AddHostReach(context.job().spec, pod["spec"], container);
  // Shared memory for NCCL, Gloo and snapshots: the default of 64 MiB is too small for any of them.
  AddScratch(pod["spec"], container, kShmVolume, "/dev/shm", {{"medium", "Memory"}});
  if (context.job().spec.checkpoint) {
    AddCheckpoints(*context.job().spec.checkpoint, pod["spec"], container);
  }
  if (context.job().spec.data_cache) {
    AddDataCache(*context.job().spec.data_cache, pod["spec"], container);
  }
  if (const auto most = context.job().spec.worker.max_replicas) {
    AddVariable(container, control::kEnvMaxRanks,
                std::to_string(int64_t{*most} * SlotsPerWorker(context.job().spec)));
  }
  if (const int gpus = GpusPerWorker(context.job().spec); gpus > 0) {
    AddVariable(container, control::kEnvGpus, std::to_string(gpus));
  }
  const api::FaultTolerance& faults = context.job().spec.fault_tolerance;
  AddLimit(container, control::kEnvLoadLimitMillis, faults.load_timeout);
  if (const auto& limit = faults.connect_timeout) {
    AddVariable(container, control::kEnvConnectTimeoutSeconds, std::to_string(limit->count()));
  }
  AddVariable(container, control::kEnvLauncherAddress, launcher_address);
  AddVariable(container, control::kEnvLauncherPort, std::to_string(control::kControlPort));
  HideGpus(pod["spec"]);
  return pod;
}

void AvoidNodes(json& pod, const std::vector<std::string>& nodes) {
  if (nodes.empty()) return;
  // By the name: the label kubernetes.io/hostname may be another.
  json expressions = json::array();
  for (const std::string& node : nodes) {
    expressions.push_back(
        {{"key", "metadata.name"}, {"operator", "NotIn"}, {"values", json::array({node})}});
  }
  json& affinity = ObjectAt(ObjectAt(pod["spec"], "affinity"), "nodeAffinity");
  ListAt(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
      .push_back({{"weight", 100}, {"preference", {{"matchFields", expressions}}}});
}

json WorkerPod(const json& common, const std::string& job_name, int index) {
  json pod = common;
  const std::string name = api::WorkerPodName(job_name, index);
  pod["metadata"]["name"] = name;
  pod["metadata"]["labels"][api::kLabelIndex] = std::to_string(index);
  pod["spec"]["hostname"] = name;
  AddVariable(ManagedContainer(pod["spec"], control::kWorkerContainer), control::kEnvWorkerIndex,
              std::to_string(index));
  return pod;
}

json LauncherPod(const PodContext& context, int64_t term) {
  const PodKind kind{
      .template_json = context.job().spec.launcher_template_json,
      .name = api::LauncherPodName(context.job().name, term),
      .role = api::kRoleLauncher,
      .container = control::kLauncherContainer,
      .program = control::kLauncherProgram,
      .message_policy = "File",  // its verdict or nothing: no log line can pass for one
      .items = LauncherItems()};
  json pod;
  json& container = FillPod(context, kind, pod);
  pod["metadata"]["labels"][api::kLabelTerm] = std::to_string(term);
  pod["metadata"]["annotations"][api::kAnnotationSeedId] = context.credentials.seed_id;
  Default(container, "resources",
          {{"requests", {{"cpu", "100m"}, {"memory", "64Mi"}}},
           {"limits", {{"cpu", "1"}, {"memory", "512Mi"}}}});
  AddVariable(container, control::kEnvTerm, std::to_string(term));
  const api::FaultTolerance& faults = context.job().spec.fault_tolerance;
  if (const auto& limit = faults.lost_after_millis) {
    AddVariable(container, control::kEnvLostAfterMillis, std::to_string(*limit));
  }
  AddLimit(container, control::kEnvStallMillis, faults.stall_after);
  if (const auto& wait = context.job().spec.start_wait) {
    AddVariable(container, control::kEnvStartWaitSeconds, std::to_string(wait->count()));
  }
  if (const auto& restart = context.job().spec.run_policy.restart) {
    AddVariable(container, control::kEnvRestartLimit, std::to_string(restart->limit));
    AddVariable(container, control::kEnvRestartWindowSeconds,
                std::to_string(restart->window.count()));
    AddVariable(container, control::kEnvCrashLimit, std::to_string(restart->crash_limit));
    if (const std::string codes = WithCommas(restart->fail_codes); !codes.empty()) {
      AddVariable(container, control::kEnvFailOnExitCodes, codes);
    }
    if (const std::string codes = WithCommas(restart->ignored_codes); !codes.empty()) {
      AddVariable(container, control::kEnvIgnoreExitCodes, codes);
    }
  }
  HideGpus(pod["spec"]);
  return pod;
}

control::LaunchSpec LaunchSpecOf(const api::TrainingJobSpec& spec) {
  control::LaunchSpec launch;
  launch.command = spec.command;
  launch.slots_per_worker = SlotsPerWorker(spec);
  launch.mpi_extra_args = spec.mpi_extra_args;
  launch.mpi_pass_env = spec.mpi_pass_env;
  launch.interfaces = spec.interfaces;
  launch.ssh_port = spec.ssh_port;
  launch.in_place = spec.InPlace();
  return launch;
}

}  // namespace ringmaster::job
