#include "operator/job/admission/volume_policy.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr std::array kVolumeKinds{"configMap", "csi",       "downwardAPI", "emptyDir",
                                  "ephemeral", "projected", "secret",      "persistentVolumeClaim"};
constexpr char kIfPossible[] = "IfPossible";
constexpr std::array kReadOnlyKinds{"configMap", "downwardAPI", "projected", "secret"};

// Returns true for an allowed path, unless its type creates files or is a socket or a device.
bool IsAllowedHostPath(const json& source, const JobRules& rules) {
  const std::string type = kube::GetString(source, {"type"});
  if (!type.empty() && type != "Directory" && type != "File") return false;
  const std::string path = kube::GetString(source, {"path"});
  return std::any_of(rules.host_paths.begin(), rules.host_paths.end(),
                     [&](const std::string& prefix) { return IsBelowHostPath(path, prefix); });
}

// Checks a volume's source. `allowed`: a kind that is allowed in addition to kVolumeKinds.
void CheckKinds(const json& volume, const std::string& path, std::string_view allowed,
                Findings& found) {
  for (const auto& [key, value] : volume.items()) {
    if (key == "name" || key == allowed || value.is_null()) continue;
    if (std::find(kVolumeKinds.begin(), kVolumeKinds.end(), key) != kVolumeKinds.end()) continue;
    found.Add(path + "." + key,
              "is rejected, because Pod Security \"restricted\" does not allow such volumes; use a "
              "persistentVolumeClaim, emptyDir, configMap, secret, projected, downwardAPI, csi "
              "or ephemeral volume");
  }
}

void CheckSources(const json& volume, const std::string& path, bool may_use_token,
                  Findings& found) {
  const auto check_source = [&](const json& source, const std::string& at) {
    for (const char* credential : {"serviceAccountToken", "podCertificate"}) {
      if (may_use_token && std::string_view(credential) == "serviceAccountToken") continue;
      found.RefuseSet(source, credential, at,
                      "is rejected, because a job's Pods may use only the credentials of a "
                      "ServiceAccount that the job's profile allows; remove it");
    }
  };
  found.IfObject(volume, "projected", path, [&](const json& projected, const std::string& at) {
    found.ForEach(projected, "sources", at, check_source);
  });
}

void CheckOneSource(const json& volume, const std::string& path, Findings& found) {
  found.RefuseSet(volume, "name", path, kByRingmaster);
  json anonymous = volume;
  anonymous.erase("name");
  const auto sources = std::count_if(anonymous.begin(), anonymous.end(),
                                     [](const json& value) { return !value.is_null(); });
  if (sources != 1) {
    found.Add(path, "names " + std::to_string(sources) +
                        " volume sources instead of one; write for example "
                        "{persistentVolumeClaim: {claimName: NAME}}");
  }
  CheckKinds(anonymous, path, "", found);
  CheckSources(anonymous, path, false, found);
}

}  // namespace

void CheckVolume(const json& volume, const std::string& path, bool may_use_token,
                 const JobRules& rules, Findings& found) {
  if (kube::GetString(volume, {"name"}).starts_with("ringmaster-")) {
    found.Add(path + ".name",
              "must not start with \"ringmaster-\", which is reserved for Ringmaster; choose "
              "another name");
  }
  found.IfObject(volume, "hostPath", path, [&](const json& source, const std::string& at) {
    if (IsAllowedHostPath(source, rules)) return;
    found.AddByPolicy(at, "is rejected in namespace " + rules.ns +
                              ", because it gives access to the node; use another volume: " +
                              rules.HowToAllow("allows.hostPaths"));
  });
  CheckKinds(volume, path, "hostPath", found);
  CheckSources(volume, path, may_use_token, found);
}

std::set<std::string> HostPathVolumes(const json& spec) {
  std::set<std::string> names;
  for (const json& volume : kube::GetArray(spec, {"volumes"})) {
    if (kube::Find(volume, {"hostPath"}) != nullptr)
      names.insert(kube::GetString(volume, {"name"}));
  }
  return names;
}

void CheckHostPathMounts(const json& container, const std::set<std::string>& host_paths,
                         const std::string& path, Findings& found) {
  found.ForEach(container, "volumeMounts", path, [&](const json& mount, const std::string& at) {
    if (!host_paths.contains(kube::GetString(mount, {"name"}))) return;
    if (!kube::GetBool(mount, {"readOnly"}, false)) {
      found.Add(at + ".readOnly", "must be true, because host paths are read-only; set it");
    }
    if (kube::GetString(mount, {"recursiveReadOnly"}, kIfPossible) == "Disabled") {
      found.Add(at + ".recursiveReadOnly",
                "must not be Disabled, because host paths are recursively read-only; remove it");
    }
    if (kube::GetString(mount, {"mountPropagation"}, "None") != "None") {
      found.Add(at + ".mountPropagation",
                "is rejected, because later mounts of the node would become visible; remove it");
    }
  });
}

bool IsReadOnlyMount(const json& mount) {
  const std::string recursive = kube::GetString(mount, {"recursiveReadOnly"});
  return kube::GetBool(mount, {"readOnly"}, false) &&
         (recursive == kIfPossible || recursive == "Enabled") &&
         kube::GetString(mount, {"mountPropagation"}, "None") == "None";
}

void RestrictHostPathMounts(json& spec) {
  const std::set<std::string> host_paths = HostPathVolumes(spec);
  for (const char* list : {"initContainers", "containers"}) {
    if (!spec.contains(list) || !spec[list].is_array()) continue;
    for (json& container : spec[list]) {
      if (kube::GetArray(container, {"volumeMounts"}).empty()) continue;
      for (json& mount : container["volumeMounts"]) {
        if (!host_paths.contains(kube::GetString(mount, {"name"}))) continue;
        json& recursive = mount["recursiveReadOnly"];
        if (recursive.is_null()) recursive = kIfPossible;
      }
    }
  }
}

void CheckCheckpointVolume(const json& volume, const std::string& path, Findings& found) {
  for (const char* kind : kReadOnlyKinds) {
    found.RefuseSet(volume, kind, path,
                    "is not writable, but checkpoints are written to it; use a "
                    "persistentVolumeClaim that all workers can share");
  }
  CheckOneSource(volume, path, found);
}

void CheckDataSource(const json& volume, const std::string& path, Findings& found) {
  found.RefuseSet(volume, "emptyDir", path,
                  "is empty in every new Pod; use a persistentVolumeClaim that holds the data");
  CheckOneSource(volume, path, found);
}

}  // namespace ringmaster::job
