#include "operator/job/manifests/pod_parts.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "common/json/json.h"
#include "operator/job/manifests/manifests.h"
#include "operator/job/manifests/pods.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

// Secret volumes belong to root; this group lets a process of any user id read items of mode 0440.
constexpr int kDefaultFsGroup = 1000;

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

}  // namespace

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

const json* FindContainer(const json& spec, std::string_view name) {
  for (const json& container : kube::GetArray(spec, {"containers"})) {
    if (kube::GetString(container, {"name"}) == name) return &container;
  }
  return nullptr;
}

json& ManagedContainer(json& spec, const char* name) {
  json& containers = ListAt(spec, "containers");
  for (json& container : containers) {
    if (kube::GetString(container, {"name"}) == name) return container;
  }
  containers.push_back(json{{"name", name}});
  return containers.back();
}

void AddScratch(json& spec, json& container, const char* volume, const char* path, json source) {
  if (MountsPath(container, path)) return;
  ListAt(spec, "volumes").push_back({{"name", volume}, {"emptyDir", std::move(source)}});
  ListAt(container, "volumeMounts").push_back({{"name", volume}, {"mountPath", path}});
}

void AddVariable(json& container, const char* name, const std::string& value) {
  std::string literal;
  for (const char c : value) literal.append(c == '$' ? 2 : 1, c);
  ListAt(container, "env").push_back({{"name", name}, {"value", literal}});
}
void AddFieldVariable(json& container, const char* name, const char* field) {
  ListAt(container, "env")
      .push_back({{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", field}}}}}});
}

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

void AddHostReach(const api::TrainingJobSpec& job, json& spec, json& container) {
  if (job.host_network) {
    spec["hostNetwork"] = true;
    // Resolve cluster names on the host network as well.
    Default(spec, "dnsPolicy", "ClusterFirstWithHostNet");
  }
  json& context = ObjectAt(container, "securityContext");
  if (job.worker.privileged) {
    context["privileged"] = true;
    context.erase("allowPrivilegeEscalation");
    // A user other than root would have no effective capabilities.
    context["runAsUser"] = 0;
    context["runAsNonRoot"] = false;
  }
  // sshd needs these capabilities if it runs as root; otherwise it needs none.
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
    // Kubernetes rejects a request that differs from the limit, so drop the template's request.
    const auto requests = resources.find("requests");
    if (requests != resources.end() && requests->is_object()) requests->erase(resource);
  }
}

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

}  // namespace ringmaster::job
