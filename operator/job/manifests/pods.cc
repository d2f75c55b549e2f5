#include "operator/job/manifests/pods.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "common/json/json.h"
#include "operator/api/names.h"
#include "operator/job/admission/gpu_resources.h"
#include "operator/job/admission/volume_policy.h"
#include "operator/job/manifests/injection.h"
#include "operator/job/manifests/manifests.h"
#include "operator/job/manifests/pod_parts.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr char kCredentialsVolume[] = "ringmaster-credentials";
constexpr char kTmpVolume[] = "ringmaster-tmp";
constexpr char kShmVolume[] = "ringmaster-shm";

constexpr int kItemMode = 0440;  // mode of a Secret's items, readable for the Pod's group
// The agent and the launcher end their processes within a second; a slow node may need more.
constexpr int kGraceSeconds = 10;

std::string WithCommas(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
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

// Adds the variable if the job sets the limit; otherwise the program uses its default.
void AddLimit(json& container, const char* name,
              const std::optional<std::chrono::milliseconds>& limit) {
  if (limit) AddVariable(container, name, std::to_string(limit->count()));
}

// The values in which worker and launcher Pods differ.
struct PodKind {
  const std::string& template_json;
  std::string name;
  const char* role;
  const char* container;
  const char* program;
  const char* message_policy;
  const std::vector<std::string>& items;
};

// Fills `pod` with the fields that both kinds have. Returns the managed container within `pod`.
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
  const bool restarts = !context.job().spec.InPlace();
  const auto& grace = context.job().spec.fault_tolerance.stop_grace;
  const int64_t wanted = restarts && grace ? grace->count() + kGraceSeconds / 2 : 0;
  Default(spec, "terminationGracePeriodSeconds", std::max<int64_t>(kGraceSeconds, wanted));
  json& container = ManagedContainer(spec, kind.container);
  Default(container, "image", context.job().spec.image);
  container["command"] = json::array({kind.program});
  RestrictPod(spec);
  RestrictHostPathMounts(spec);
  container["terminationMessagePolicy"] = kind.message_policy;
  Default(ObjectAt(container, "securityContext"), "readOnlyRootFilesystem", true);
  AddCommonVariables(context, kind.items, container);
  if (wanted > 0)
    AddVariable(container, control::kEnvStopGraceSeconds, std::to_string(grace->count()));
  AddScratch(spec, container, kTmpVolume, "/tmp", json::object());
  AddCredentials(spec, container, context.credentials, kind.items);
  return container;
}

// Hides GPUs from containers that do not request any, even if their image exposes all. For other
// containers, the device plugin sets the variable, or the template sets a checked value.
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

json CommonWorkerPod(const PodContext& context, const std::string& launcher_address) {
  const PodKind kind{.template_json = context.job().spec.worker.template_json,
                     .name = {},  // WorkerPod() sets it
                     .role = api::kRoleWorker,
                     .container = control::kWorkerContainer,
                     .program = control::kAgentProgram,
                     .message_policy = "FallbackToLogsOnError",  // on failure: the last log lines
                     .items = WorkerItems()};
  json pod;
  json& container = FillPod(context, kind, pod);
  AddHostReach(context.job().spec, pod["spec"], container);
  // Add shared memory for NCCL, Gloo and snapshots, for which the default of 64 MiB is too small.
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
  Inject(context.tools_image, context.job().spec.inject, pod["spec"], container);
  HideGpus(pod["spec"]);
  return pod;
}

void AvoidNodes(json& pod, const std::vector<std::string>& nodes) {
  if (nodes.empty()) return;
  // Select nodes by name, because the label kubernetes.io/hostname may differ from the name.
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
      .message_policy = "File",  // only a verdict: a log line could be mistaken for a verdict
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
  Inject(context.tools_image, context.job().spec.inject, pod["spec"], container);
  HideGpus(pod["spec"]);
  return pod;
}

control::LaunchSpec LaunchSpecOf(const api::TrainingJobSpec& spec) {
  control::LaunchSpec launch;
  launch.command = spec.command;
  launch.slots_per_worker = SlotsPerWorker(spec);
  if (spec.launch_mode == api::LaunchMode::kPerWorker) {
    launch.ranks_per_process = std::exchange(launch.slots_per_worker, 1);
  }
  launch.mpi_extra_args = spec.mpi_extra_args;
  launch.mpi_pass_env = spec.mpi_pass_env;
  launch.launch_agent = spec.mpi_launch_agent;
  launch.interfaces = spec.interfaces;
  launch.ssh_port = spec.ssh_port;
  launch.in_place = spec.InPlace();
  launch.allowed_sizes = spec.allowed_sizes;
  std::ranges::sort(launch.allowed_sizes);
  return launch;
}

}  // namespace ringmaster::job
