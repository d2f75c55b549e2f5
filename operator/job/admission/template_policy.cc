// Longer than most files on purpose: what is refused is one list, to be audited in one place.
#include "operator/job/admission/template_policy.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "common/json/json.h"
#include "operator/api/names.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr char kByRingmaster[] = "is set by Ringmaster; remove it from the template";
constexpr char kRefused[] =
    "is refused, because it gives the Pod rights beyond the profile \"restricted\"; remove it";
constexpr char kForeignRights[] =
    "is refused, because it would use rights that the job's author may not have; remove it";
constexpr char kCredentialsRoot[] = "/etc/ringmaster";

constexpr std::array kVolumeKinds{"configMap", "csi",       "downwardAPI", "emptyDir",
                                  "ephemeral", "projected", "secret",      "persistentVolumeClaim"};
constexpr std::array kReadOnlyKinds{"configMap", "downwardAPI", "projected", "secret"};
constexpr std::array kSafeSysctls{
    "kernel.shm_rmid_forced",           "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",        "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",     "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",      "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",          "net.ipv4.tcp_wmem"};
constexpr std::array kSelinuxTypes{"", "container_t", "container_init_t", "container_kvm_t",
                                   "container_engine_t"};

template <std::size_t N>
bool IsOneOf(const std::array<const char*, N>& list, std::string_view text) {
  return std::any_of(list.begin(), list.end(), [&](const char* item) { return text == item; });
}

bool IsListed(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// An absolute path without ".", ".." and doubled slashes.
std::string NormalPath(const std::string& path) {
  std::string out;
  for (const auto& part : std::filesystem::path(path).relative_path()) {
    if (part == "..") {
      out.erase(std::min(out.rfind('/'), out.size()));
    } else if (!part.empty() && part != ".") {
      out += "/" + part.string();
    }
  }
  return out;
}

// Collects violations under one path of the template.
class Checker {
 public:
  Checker(std::vector<Violation>& found, std::string managed, const NamespaceRules& rules)
      : found_(found), managed_(std::move(managed)), rules_(rules) {}

  void Template(const json& pod_template, const std::string& path);
  void CheckpointVolume(const json& volume, const std::string& path);
  void DataSource(const json& volume, const std::string& path);

 private:
  void Metadata(const json& metadata, const std::string& path);
  void PodSpec(const json& spec, const std::string& path);
  void PodFields(const json& spec, const std::string& path);
  void ServiceAccount(const json& spec, const std::string& path);
  void OneSource(const json& volume, const std::string& path);
  void Volume(const json& volume, const std::string& path);
  void Container(const json& container, const std::string& path, bool managed);
  void ManagedContainer(const json& container, const std::string& path);
  void Environment(const json& container, const std::string& path);
  void Mounts(const json& container, const std::string& path);
  void HostReach(const json& container, const std::string& path);
  // What Pod and container security contexts have in common, then what only one of them has.
  void SecurityContext(const json& context, const std::string& path);
  void PodSecurityContext(const json& context, const std::string& path);
  void ContainerSecurityContext(const json& context, const std::string& path);

  // Each refuses one form of a field.
  void RefuseSet(const json& object, const char* field, const std::string& path,
                 const char* message) {
    if (kube::Find(object, {field}) != nullptr) Add(path + "." + field, message);
  }
  // false and null are what a Pod has anyway; anything else is refused.
  void RefuseTrue(const json& object, const char* field, const std::string& path) {
    const json* value = kube::Find(object, {field});
    if (value != nullptr && *value != json(false)) Add(path + "." + field, kRefused);
  }
  void RefuseList(const json& object, const char* field, const std::string& path,
                  const char* message) {
    const json* value = kube::Find(object, {field});
    if (value != nullptr && !(value->is_array() && value->empty()))
      Add(path + "." + field, message);
  }
  // Lists must be lists and their items objects, or what is below them would escape the checks.
  template <typename Check>
  void ForEach(const json& object, const char* field, const std::string& path, Check check) {
    const json* list = kube::Find(object, {field});
    if (list == nullptr) return;
    if (!list->is_array()) return Add(path + "." + field, "is not a list; correct it");
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string at = path + "." + field + "[" + std::to_string(i) + "]";
      if (!(*list)[i].is_object()) {
        Add(at, "is not an object; correct it");
      } else {
        check((*list)[i], at);
      }
    }
  }
  template <typename Check>
  void IfObject(const json& object, const char* field, const std::string& path, Check check) {
    const json* value = kube::Find(object, {field});
    if (value == nullptr) return;
    if (!value->is_object()) return Add(path + "." + field, "is not an object; correct it");
    check(*value, path + "." + field);
  }
  void Add(const std::string& path, const std::string& message) {
    found_.push_back({.path = path, .message = message});
  }

  // What the namespace's rules could allow under `item`, and do not.
  void Deny(const std::string& path, const char* item) {
    found_.push_back({.path = path,
                      .message = "is refused in namespace " + rules_.ns +
                                 ", because it gives the Pod rights beyond the profile "
                                 "\"restricted\"; remove it: " +
                                 rules_.HowToAllow(item),
                      .by_policy = true});
  }
  bool AllowsAccount(const json& spec) const {
    const std::string account = kube::GetString(spec, {"serviceAccountName"});
    return IsListed(rules_.service_accounts, account);
  }

  std::vector<Violation>& found_;
  const std::string managed_;
  const NamespaceRules& rules_;
  bool may_use_token_ = false;  // the Pod's service account is one that the rules list
};

void Checker::Template(const json& pod_template, const std::string& path) {
  if (!pod_template.is_object()) return Add(path, "is not an object; correct it");
  for (const auto& [key, value] : pod_template.items()) {
    if (key != "metadata" && key != "spec") {
      Add(path + "." + key, "is no field of a Pod template; remove it");
    }
  }
  IfObject(pod_template, "metadata", path,
           [this](const json& metadata, const std::string& at) { Metadata(metadata, at); });
  IfObject(pod_template, "spec", path,
           [this](const json& spec, const std::string& at) { PodSpec(spec, at); });
}

void Checker::Metadata(const json& metadata, const std::string& path) {
  for (const auto& [key, value] : metadata.items()) {
    if (key != "labels" && key != "annotations" && !value.is_null()) {
      Add(path + "." + key,
          "cannot be set for a job's Pods; a template has labels and annotations only");
    }
  }
  for (const char* map : {"labels", "annotations"}) {
    IfObject(metadata, map, path, [this](const json& entries, const std::string& at) {
      for (const auto& [key, value] : entries.items()) {
        if (StartsWith(key, "ringmaster.dev/")) Add(at + "[" + key + "]", kByRingmaster);
        if (StartsWith(key, "container.apparmor.security.beta.kubernetes.io/") &&
            value == json("unconfined")) {
          Add(at + "[" + key + "]", kRefused);
        }
      }
    });
  }
}

void Checker::PodSpec(const json& spec, const std::string& path) {
  PodFields(spec, path);
  IfObject(spec, "securityContext", path,
           [this](const json& context, const std::string& at) { PodSecurityContext(context, at); });
  ForEach(spec, "volumes", path,
          [this](const json& volume, const std::string& at) { Volume(volume, at); });
  ForEach(spec, "initContainers", path, [this](const json& container, const std::string& at) {
    Container(container, at, false);
  });
  bool has_managed = false;
  const json& containers = kube::GetArray(spec, {"containers"});
  ForEach(spec, "containers", path, [&](const json& container, const std::string& at) {
    const bool managed = kube::GetString(container, {"name"}) == managed_;
    has_managed = has_managed || managed;
    Container(container, at, managed);
  });
  if (!containers.empty() && !has_managed) {
    Add(path + ".containers",
        "has no container named \"" + managed_ +
            "\", the one that Ringmaster runs; name one so, or remove the list");
  }
}

void Checker::PodFields(const json& spec, const std::string& path) {
  for (const char* field :
       {"hostPID", "hostIPC", "shareProcessNamespace", "automountServiceAccountToken"}) {
    RefuseTrue(spec, field, path);
  }
  const json* host_network = kube::Find(spec, {"hostNetwork"});
  if (host_network != nullptr && *host_network != json(false)) {
    Add(path + ".hostNetwork",
        "is refused in a template; remove it and set spec.network.hostNetwork, which the "
        "operator's namespace policy has to allow");
  }
  ServiceAccount(spec, path);
  for (const char* field : {"serviceAccount", "nodeName", "schedulerName"}) {
    RefuseSet(spec, field, path, kForeignRights);
  }
  if (StartsWith(kube::GetString(spec, {"priorityClassName"}), "system-")) {
    Add(path + ".priorityClassName",
        "is refused, because such a class is for the cluster's own Pods and would preempt them; "
        "name another one, or remove it");
  }
  for (const char* field : {"hostname", "subdomain"}) RefuseSet(spec, field, path, kByRingmaster);
  RefuseSet(spec, "ephemeralContainers", path, "cannot be part of a template; remove it");
  const json* restart = kube::Find(spec, {"restartPolicy"});
  if (restart != nullptr && *restart != json("Never")) Add(path + ".restartPolicy", kByRingmaster);
  if (kube::GetString(spec, {"os", "name"}, "linux") != "linux") {
    Add(path + ".os.name", "is not linux, the only system Ringmaster runs on; remove it");
  }
}

// The account's token is not mounted by itself: a listed account may be named in a projected
// volume.
void Checker::ServiceAccount(const json& spec, const std::string& path) {
  const json* account = kube::Find(spec, {"serviceAccountName"});
  if (account == nullptr) return;
  may_use_token_ = AllowsAccount(spec);
  if (may_use_token_) return;
  found_.push_back(
      {.path = path + ".serviceAccountName",
       .message = std::string(kForeignRights) + ": " + rules_.HowToAllow("serviceAccounts"),
       .by_policy = true});
}

void Checker::Volume(const json& volume, const std::string& path) {
  if (StartsWith(kube::GetString(volume, {"name"}), "ringmaster-")) {
    Add(path + ".name",
        "starts with \"ringmaster-\", which is kept for Ringmaster's own; choose another name");
  }
  for (const auto& [key, value] : volume.items()) {
    if (key != "name" && !value.is_null() && !IsOneOf(kVolumeKinds, key)) {
      Add(path + "." + key,
          "is refused, because the profile \"restricted\" has no such volumes; use a "
          "persistentVolumeClaim, emptyDir, configMap, secret, projected, downwardAPI, csi or "
          "ephemeral volume");
    }
  }
  IfObject(volume, "projected", path, [this](const json& projected, const std::string& at) {
    ForEach(projected, "sources", at, [this](const json& source, const std::string& source_at) {
      for (const char* credential : {"serviceAccountToken", "podCertificate"}) {
        if (may_use_token_ && std::string_view(credential) == "serviceAccountToken") continue;
        RefuseSet(source, credential, source_at,
                  "is refused, because a job's Pods hold no API credentials but the token of a "
                  "serviceAccountName that the namespace policy lists; remove it");
      }
    });
  });
}

// Of the allow-list, those that can be written.
void Checker::CheckpointVolume(const json& volume, const std::string& path) {
  for (const char* kind : kReadOnlyKinds) {
    RefuseSet(
        volume, kind, path,
        "cannot be written, and checkpoints are; use a persistentVolumeClaim that all workers "
        "can share");
  }
  OneSource(volume, path);
}

// Of the allow-list, those that hold something when a Pod starts.
void Checker::DataSource(const json& volume, const std::string& path) {
  RefuseSet(volume, "emptyDir", path,
            "is empty in every new Pod, and the data is copied from here; use a "
            "persistentVolumeClaim that holds it");
  OneSource(volume, path);
}

void Checker::OneSource(const json& volume, const std::string& path) {
  RefuseSet(volume, "name", path, kByRingmaster);
  json anonymous = volume;
  anonymous.erase("name");
  const auto sources = std::count_if(anonymous.begin(), anonymous.end(),
                                     [](const json& value) { return !value.is_null(); });
  if (sources != 1) {
    Add(path, "names " + std::to_string(sources) +
                  " volume sources instead of one; write for example {persistentVolumeClaim: "
                  "{claimName: NAME}}");
  }
  Volume(anonymous, path);
}

void Checker::Container(const json& container, const std::string& path, bool managed) {
  if (managed) ManagedContainer(container, path);
  IfObject(container, "securityContext", path, [this](const json& context, const std::string& at) {
    ContainerSecurityContext(context, at);
  });
  Environment(container, path);
  Mounts(container, path);
  HostReach(container, path);
}

void Checker::ManagedContainer(const json& container, const std::string& path) {
  RefuseList(container, "command", path,
             "is set by Ringmaster; what the ranks run goes to spec.command of the job");
  RefuseList(container, "args", path,
             "is set by Ringmaster; what the ranks run goes to spec.command of the job");
  for (const char* field :
       {"terminationMessagePath", "terminationMessagePolicy", "restartPolicy"}) {
    RefuseSet(container, field, path, kByRingmaster);
  }
  if (managed_ != control::kLauncherContainer) return;
  for (const char* kind : {"limits", "requests"}) {
    const json* amounts = kube::Find(container, {"resources", kind});
    if (amounts != nullptr && amounts->is_object() && amounts->contains("nvidia.com/gpu")) {
      Add(path + ".resources." + kind + "[nvidia.com/gpu]",
          "is refused, because the launcher uses no GPU; give it to the worker's container");
    }
  }
}

void Checker::Environment(const json& container, const std::string& path) {
  ForEach(container, "env", path, [this](const json& variable, const std::string& at) {
    if (StartsWith(kube::GetString(variable, {"name"}), "RINGMASTER_")) {
      Add(at + ".name",
          "starts with \"RINGMASTER_\", which is kept for Ringmaster's own; choose another name");
    }
  });
}

void Checker::Mounts(const json& container, const std::string& path) {
  ForEach(container, "volumeMounts", path, [this](const json& mount, const std::string& at) {
    if (StartsWith(kube::GetString(mount, {"name"}), "ringmaster-")) {
      Add(at + ".name", "names a volume of Ringmaster's own; mount one of the template's volumes");
    }
    const std::string target = NormalPath(kube::GetString(mount, {"mountPath"}));
    if (target == kCredentialsRoot || StartsWith(target, std::string(kCredentialsRoot) + "/")) {
      Add(at + ".mountPath",
          "is under /etc/ringmaster, where the job's credentials are; choose another path");
    }
    const auto is_taken = [&](const std::string& ours) {
      return target == ours || StartsWith(target, ours + "/");
    };
    if (is_taken(control::kCheckpointDir)) {
      Add(at + ".mountPath", "is where spec.checkpoint.volume is mounted; choose another path");
    }
    if (is_taken(control::kDataSourceDir) || is_taken(control::kDataDir)) {
      Add(at + ".mountPath", "is where the volumes of spec.dataCache are; choose another path");
    }
    if (kube::GetString(mount, {"mountPropagation"}) == "Bidirectional") {
      Add(at + ".mountPropagation", kRefused);
    }
  });
}

void Checker::HostReach(const json& container, const std::string& path) {
  ForEach(container, "ports", path, [this](const json& port, const std::string& at) {
    const json* host_port = kube::Find(port, {"hostPort"});
    if (host_port != nullptr && *host_port != json(0)) Add(at + ".hostPort", kRefused);
    RefuseSet(port, "hostIP", at, kRefused);
  });
  const auto check_handler = [&](const json* handler, const std::string& at) {
    if (handler == nullptr) return;
    for (const char* kind : {"httpGet", "tcpSocket"}) {
      if (!kube::GetString(*handler, {kind, "host"}).empty()) {
        Add(at + "." + kind + ".host",
            "is refused, because the kubelet would connect there in the job's name; remove it");
      }
    }
  };
  for (const char* probe : {"livenessProbe", "readinessProbe", "startupProbe"}) {
    check_handler(kube::Find(container, {probe}), path + "." + probe);
  }
  for (const char* hook : {"postStart", "preStop"}) {
    check_handler(kube::Find(container, {"lifecycle", hook}), path + ".lifecycle." + hook);
  }
}

void Checker::SecurityContext(const json& context, const std::string& path) {
  const json* user = kube::Find(context, {"runAsUser"});
  if (user != nullptr && *user == json(0) && !rules_.root) Deny(path + ".runAsUser", "root");
  const json* non_root = kube::Find(context, {"runAsNonRoot"});
  if (non_root != nullptr && *non_root != json(true) && !rules_.root) {
    Deny(path + ".runAsNonRoot", "root");
  }
  for (const char* profile : {"seccompProfile", "appArmorProfile"}) {
    if (kube::GetString(context, {profile, "type"}) == "Unconfined") {
      Add(path + "." + profile + ".type", kRefused);
    }
  }
  if (!IsOneOf(kSelinuxTypes, kube::GetString(context, {"seLinuxOptions", "type"}))) {
    Add(path + ".seLinuxOptions.type", kRefused);
  }
  for (const char* field : {"user", "role"}) {
    if (!kube::GetString(context, {"seLinuxOptions", field}).empty()) {
      Add(path + ".seLinuxOptions." + field, kRefused);
    }
  }
  RefuseSet(context, "windowsOptions", path, kRefused);
}

void Checker::PodSecurityContext(const json& context, const std::string& path) {
  SecurityContext(context, path);
  ForEach(context, "sysctls", path, [this](const json& sysctl, const std::string& at) {
    if (!IsOneOf(kSafeSysctls, kube::GetString(sysctl, {"name"}))) Add(at + ".name", kRefused);
  });
}

void Checker::ContainerSecurityContext(const json& context, const std::string& path) {
  SecurityContext(context, path);
  for (const char* field : {"privileged", "allowPrivilegeEscalation"}) {
    const json* value = kube::Find(context, {field});
    if (value != nullptr && *value != json(false) && !rules_.privileged) {
      Deny(path + "." + field, "privileged");
    }
  }
  IfObject(context, "capabilities", path, [this](const json& capabilities, const std::string& at) {
    const json* added = kube::Find(capabilities, {"add"});
    if (added == nullptr) return;
    const bool allowed =
        added->is_array() && std::all_of(added->begin(), added->end(), [this](const json& one) {
          return one.is_string() && IsListed(rules_.capabilities, one.get<std::string>());
        });
    if (!allowed) Deny(at + ".add", "capabilities");
  });
  if (kube::GetString(context, {"procMount"}, "Default") != "Default") {
    Add(path + ".procMount", kRefused);
  }
}

void CheckText(const std::string& text, const std::string& path, const std::string& managed,
               const NamespaceRules& rules, std::vector<Violation>& found) {
  if (text.empty()) return;
  const Result<json> parsed = ParseJson(text);
  if (!parsed.ok()) {
    found.push_back({.path = path, .message = "cannot be read: " + parsed.error().message});
    return;
  }
  for (Violation& violation : CheckTemplate(*parsed, path, managed, rules)) {
    found.push_back(std::move(violation));
  }
}

void CheckVolume(const std::string& text, const std::string& path,
                 void (Checker::*check)(const json&, const std::string&),
                 const NamespaceRules& rules, std::vector<Violation>& found) {
  const Result<json> volume = ParseJson(text);
  if (!volume.ok() || !volume->is_object()) {
    return found.push_back({.path = path, .message = "is not an object; correct it"});
  }
  Checker checker(found, control::kWorkerContainer, rules);
  (checker.*check)(*volume, path);
}

}  // namespace

std::vector<Violation> CheckTemplate(const json& pod_template, const std::string& path,
                                     const std::string& managed, const NamespaceRules& rules) {
  std::vector<Violation> found;
  Checker(found, managed, rules).Template(pod_template, path);
  return found;
}

std::vector<Violation> CheckSpec(const api::TrainingJobSpec& spec, const NamespaceRules& rules) {
  if (spec.texts == api::TrainingJobSpec::Texts::kTooLong) {
    return {{.path = spec.longest_text,
             .message = "command, templates, volumes and mpirun's arguments have more than " +
                        std::to_string(api::kMaxTextBytes >> 10) +
                        " KiB together, and this is the longest; put long texts into a ConfigMap "
                        "or into the image"}};
  }
  std::vector<Violation> found;
  CheckText(spec.worker.template_json, "spec.worker.template", control::kWorkerContainer, rules,
            found);
  CheckText(spec.launcher_template_json, "spec.launcher.template", control::kLauncherContainer,
            rules, found);
  if (spec.checkpoint) {
    CheckVolume(spec.checkpoint->volume_json, "spec.checkpoint.volume", &Checker::CheckpointVolume,
                rules, found);
  }
  if (spec.data_cache) {
    CheckVolume(spec.data_cache->from_json, "spec.dataCache.from", &Checker::DataSource, rules,
                found);
  }
  return found;
}

}  // namespace ringmaster::job
