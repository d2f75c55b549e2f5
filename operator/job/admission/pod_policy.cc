#include "operator/job/admission/pod_policy.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "operator/job/admission/gpu_resources.h"
#include "operator/job/admission/volume_policy.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr char kBeyond[] = "gives the Pod rights that its job's profile does not allow";

template <typename List>
bool Has(const List& list, std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

class PodChecker {
 public:
  explicit PodChecker(const JobRules& rules) : rules_(rules) {}

  std::vector<Violation> Check(const json& spec) {
    for (const char* field : {"hostPID", "hostIPC", "shareProcessNamespace"}) Truth(spec, field);
    if (!rules_.host_network) Truth(spec, "hostNetwork");
    const std::string scheduler = kube::GetString(spec, {"schedulerName"});
    if (kube::Find(spec, {"schedulerName"}) != nullptr && !Has(rules_.schedulers, scheduler)) {
      Add("schedulerName");
    }
    for (const char* field : {"nodeName", "ephemeralContainers"}) {
      if (kube::Find(spec, {field}) != nullptr) Add(field);
    }
    if (kube::GetBool(spec, {"automountServiceAccountToken"}, true)) {
      Add("automountServiceAccountToken");
    }
    const std::string account = kube::GetString(spec, {"serviceAccountName"});
    if (!account.empty() && !Has(rules_.service_accounts, account)) Add("serviceAccountName");
    Volumes(spec);
    if (const json* context = kube::Find(spec, {"securityContext"})) {
      User(*context, "securityContext");
    }
    for (const char* list : {"initContainers", "containers"}) {
      for (const json& container : kube::GetArray(spec, {list})) {
        Container(container, std::string(list) + "[" + kube::GetString(container, {"name"}) + "]");
      }
    }
    return std::move(found_);
  }

 private:
  void Volumes(const json& spec) {
    static constexpr std::string_view kKinds[] = {
        "name",      "configMap", "csi",
        "emptyDir",  "secret",    "downwardAPI",
        "ephemeral", "projected", "persistentVolumeClaim"};
    for (const json& volume : kube::GetArray(spec, {"volumes"})) {
      for (const auto& [kind, source] : volume.items()) {
        if (source.is_null() || Has(kKinds, kind)) continue;
        if (kind == "image" && kube::GetString(volume, {"name"}) == kToolsName) continue;
        if (kind != "hostPath" || !MayMount(spec, volume)) Add("volumes." + kind);
      }
    }
  }
  // Returns true if the host path is allowed and all its mounts are read-only.
  bool MayMount(const json& spec, const json& volume) const {
    const std::string type = kube::GetString(volume, {"hostPath", "type"});
    if (!type.empty() && type != "Directory" && type != "File") return false;
    const std::string path = kube::GetString(volume, {"hostPath", "path"});
    const bool listed =
        std::any_of(rules_.host_paths.begin(), rules_.host_paths.end(),
                    [&](const std::string& prefix) { return IsBelowHostPath(path, prefix); });
    if (!listed) return false;
    for (const char* list : {"initContainers", "containers"}) {
      for (const json& container : kube::GetArray(spec, {list})) {
        for (const json& mount : kube::GetArray(container, {"volumeMounts"})) {
          const bool same = kube::GetString(mount, {"name"}) == kube::GetString(volume, {"name"});
          if (same && !IsReadOnlyMount(mount)) return false;
        }
      }
    }
    return true;
  }
  void User(const json& context, const std::string& path) {
    const json* user = kube::Find(context, {"runAsUser"});
    if (user != nullptr && *user == json(0) && !rules_.root) Add(path + ".runAsUser");
  }
  void Container(const json& container, const std::string& path) {
    for (const json& port : kube::GetArray(container, {"ports"})) {
      const json* host_port = kube::Find(port, {"hostPort"});
      if (host_port != nullptr && *host_port != json(0)) Add(path + ".ports.hostPort");
    }
    if (rules_.max_gpus) Environment(container, path);
    const json* context = kube::Find(container, {"securityContext"});
    if (context == nullptr) return;
    const std::string at = path + ".securityContext";
    User(*context, at);
    if (!rules_.privileged) {
      for (const char* field : {"privileged", "allowPrivilegeEscalation"}) {
        Truth(*context, field, at + ".");
      }
    }
    if (kube::GetString(*context, {"procMount"}, "Default") != "Default") Add(at + ".procMount");
    static constexpr std::string_view kOfSshd[] = {"SETGID", "SETUID", "SYS_CHROOT"};
    for (const json& added : kube::GetArray(*context, {"capabilities", "add"})) {
      const std::string name = added.is_string() ? added.get<std::string>() : std::string();
      if (!Has(rules_.capabilities, name) && !(rules_.root && Has(kOfSshd, name))) {
        Add(at + ".capabilities.add");
      }
    }
  }
  // Checks that a container does not get GPUs from its environment, because no limit counts them.
  void Environment(const json& container, const std::string& path) {
    bool hidden = TakesGpus(container);
    for (const json& source : kube::GetArray(container, {"envFrom"})) {
      if (hidden && MayNameGpus(source)) Add(path + ".envFrom");
    }
    for (const json& variable : kube::GetArray(container, {"env"})) {
      if (kube::GetString(variable, {"name"}) != kVisibleGpus) continue;
      if (!HidesGpus(variable)) return Add(path + ".env[" + kVisibleGpus + "]");
      hidden = true;
    }
    if (!hidden) Add(path + ".env[" + kVisibleGpus + "]");
  }
  // Adds a violation if the field is set to a value other than null or false.
  void Truth(const json& object, const char* field, const std::string& path = {}) {
    const json* value = kube::Find(object, {field});
    if (value != nullptr && *value != json(false)) Add(path + field);
  }
  void Add(const std::string& path) {
    found_.push_back({.path = "the Pod's spec." + path, .message = kBeyond, .by_policy = true});
  }

  const JobRules& rules_;
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> CheckPod(const json& pod, const JobRules& rules) {
  const json* spec = kube::Find(pod, {"spec"});
  return spec == nullptr ? std::vector<Violation>() : PodChecker(rules).Check(*spec);
}

}  // namespace ringmaster::job
