#include "operator/job/admission/template_policy.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "common/json/json.h"
#include "operator/job/admission/container_policy.h"
#include "operator/job/admission/findings.h"
#include "operator/job/admission/security_context_policy.h"
#include "operator/job/admission/volume_policy.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr char kForeignRights[] =
    "is rejected, because it would use permissions that the job's author may not have; remove it";

void CheckMetadata(const json& metadata, const std::string& path, Findings& found) {
  for (const auto& [key, value] : metadata.items()) {
    if (key != "labels" && key != "annotations" && !value.is_null()) {
      found.Add(path + "." + key,
                "cannot be set on a job's Pods; a template can set only labels and annotations");
    }
  }
  for (const char* map : {"labels", "annotations"}) {
    found.IfObject(metadata, map, path, [&](const json& entries, const std::string& at) {
      for (const auto& [key, value] : entries.items()) {
        if (key.starts_with("ringmaster.dev/")) found.Add(at + "[" + key + "]", kByRingmaster);
        if (key.starts_with(kAppArmorOfContainer) && value == json("unconfined")) {
          found.Add(at + "[" + key + "]", kBeyondRestricted);
        }
      }
    });
  }
}

bool Lists(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Returns true if the Pod uses a service account that the rules list. The account's token is not
// mounted automatically, but a projected volume may mount it.
bool UsesListedAccount(const json& spec, const JobRules& rules) {
  if (kube::Find(spec, {"serviceAccountName"}) == nullptr) return false;
  return Lists(rules.service_accounts, kube::GetString(spec, {"serviceAccountName"}));
}

// Checks the fields of a Pod outside of its containers, volumes and security context.
void CheckPodFields(const json& spec, const std::string& path, const JobRules& rules,
                    Findings& found) {
  // false and null are the defaults of a Pod; any other value is rejected.
  for (const char* field :
       {"hostPID", "hostIPC", "shareProcessNamespace", "automountServiceAccountToken"}) {
    const json* value = kube::Find(spec, {field});
    if (value != nullptr && *value != json(false)) found.Add(path + "." + field, kBeyondRestricted);
  }
  const json* host_network = kube::Find(spec, {"hostNetwork"});
  if (host_network != nullptr && *host_network != json(false)) {
    found.Add(path + ".hostNetwork",
              "is rejected in a template; remove it and set spec.network.hostNetwork, which the "
              "job's profile must allow");
  }
  const bool has_account = kube::Find(spec, {"serviceAccountName"}) != nullptr;
  if (has_account && !UsesListedAccount(spec, rules)) {
    found.AddByPolicy(path + ".serviceAccountName", std::string(kForeignRights) + ": " +
                                                        rules.HowToAllow("allows.serviceAccounts"));
  }
  const std::string scheduler = kube::GetString(spec, {"schedulerName"});
  if (kube::Find(spec, {"schedulerName"}) != nullptr && !Lists(rules.schedulers, scheduler)) {
    found.AddByPolicy(path + ".schedulerName",
                      std::string(kForeignRights) + ": " + rules.HowToAllow("allows.schedulers"));
  }
  for (const char* field : {"serviceAccount", "nodeName"}) {
    found.RefuseSet(spec, field, path, kForeignRights);
  }
  if (kube::GetString(spec, {"priorityClassName"}).starts_with("system-")) {
    found.Add(path + ".priorityClassName",
              "is rejected, because this class is reserved for system Pods; name another class or "
              "remove it");
  }
  for (const char* field : {"hostname", "subdomain"}) {
    found.RefuseSet(spec, field, path, kByRingmaster);
  }
  found.RefuseSet(spec, "ephemeralContainers", path, "cannot be part of a template; remove it");
  const json* restart = kube::Find(spec, {"restartPolicy"});
  if (restart != nullptr && *restart != json("Never")) {
    found.Add(path + ".restartPolicy", kByRingmaster);
  }
  if (kube::GetString(spec, {"os", "name"}, "linux") != "linux") {
    found.Add(path + ".os.name",
              "must be linux, the only operating system that Ringmaster supports; remove it");
  }
}

void CheckContainers(const json& spec, const std::string& path, const std::string& managed,
                     const JobRules& rules, Findings& found) {
  const std::set<std::string> host_paths = HostPathVolumes(spec);
  found.ForEach(spec, "initContainers", path, [&](const json& container, const std::string& at) {
    CheckContainer(container, at, rules, found);
    CheckHostPathMounts(container, host_paths, at, found);
  });
  bool has_managed = false;
  found.ForEach(spec, "containers", path, [&](const json& container, const std::string& at) {
    if (kube::GetString(container, {"name"}) == managed) {
      has_managed = true;
      CheckManagedContainer(container, at, managed, found);
    }
    CheckContainer(container, at, rules, found);
    CheckHostPathMounts(container, host_paths, at, found);
  });
  if (!kube::GetArray(spec, {"containers"}).empty() && !has_managed) {
    found.Add(path + ".containers",
              "has no container named \"" + managed +
                  "\", which Ringmaster manages; name one of them so or remove the list");
  }
}

void CheckPodSpec(const json& spec, const std::string& path, const std::string& managed,
                  const JobRules& rules, Findings& found) {
  CheckPodFields(spec, path, rules, found);
  found.IfObject(spec, "securityContext", path, [&](const json& context, const std::string& at) {
    CheckPodSecurityContext(context, at, rules, found);
  });
  const bool may_use_token = UsesListedAccount(spec, rules);
  found.ForEach(spec, "volumes", path, [&](const json& volume, const std::string& at) {
    CheckVolume(volume, at, may_use_token, rules, found);
  });
  CheckContainers(spec, path, managed, rules, found);
}

void CheckParsed(const json& pod_template, const std::string& path, const std::string& managed,
                 const JobRules& rules, Findings& found) {
  if (!pod_template.is_object()) return found.Add(path, "is not an object; correct it");
  for (const auto& [key, value] : pod_template.items()) {
    if (key != "metadata" && key != "spec") {
      found.Add(path + "." + key, "is not a field of a Pod template; remove it");
    }
  }
  found.IfObject(pod_template, "metadata", path, [&](const json& metadata, const std::string& at) {
    CheckMetadata(metadata, at, found);
  });
  found.IfObject(pod_template, "spec", path, [&](const json& spec, const std::string& at) {
    CheckPodSpec(spec, at, managed, rules, found);
  });
}

void CheckText(const std::string& text, const std::string& path, const std::string& managed,
               const JobRules& rules, Findings& found) {
  if (text.empty()) return;
  const Result<json> parsed = ParseJson(text);
  if (!parsed.ok()) return found.Add(path, "cannot be read: " + parsed.error().message);
  CheckParsed(*parsed, path, managed, rules, found);
}

void CheckVolumeText(const std::string& text, const std::string& path,
                     void (*check)(const json&, const std::string&, Findings&), Findings& found) {
  const Result<json> volume = ParseJson(text);
  if (!volume.ok() || !volume->is_object()) {
    return found.Add(path, "is not an object; correct it");
  }
  check(*volume, path, found);
}

}  // namespace

std::vector<Violation> CheckTemplate(const json& pod_template, const std::string& path,
                                     const std::string& managed, const JobRules& rules) {
  Findings found;
  CheckParsed(pod_template, path, managed, rules, found);
  return found.Take();
}

std::vector<Violation> CheckSpec(const api::TrainingJobSpec& spec, const JobRules& rules) {
  if (spec.texts == api::TrainingJobSpec::Texts::kTooLong) {
    return {{.path = spec.longest_text,
             .message = "is the longest text of this job, whose command, templates, volumes and "
                        "mpirun arguments together exceed " +
                        std::to_string(api::kMaxTextBytes >> 10) +
                        " KiB; move long texts into a ConfigMap or the image"}};
  }
  Findings found;
  for (const api::FieldProblem& problem : spec.problems) {
    if (problem.by_profile) {
      found.AddByPolicy(problem.path,
                        problem.message + " (TrainingProfile \"" + rules.profile + "\")");
    } else {
      found.Add(problem.path, problem.message);
    }
  }
  CheckText(spec.worker.template_json, "spec.worker.template", control::kWorkerContainer, rules,
            found);
  CheckText(spec.launcher_template_json, "spec.launcher.template", control::kLauncherContainer,
            rules, found);
  if (spec.checkpoint) {
    CheckVolumeText(spec.checkpoint->volume_json, "spec.checkpoint.volume", CheckCheckpointVolume,
                    found);
  }
  if (spec.data_cache) {
    CheckVolumeText(spec.data_cache->from_json, "spec.dataCache.from", CheckDataSource, found);
  }
  return found.Take();
}

}  // namespace ringmaster::job
