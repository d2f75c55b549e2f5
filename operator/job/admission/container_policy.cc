#include "operator/job/admission/container_policy.h"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "operator/job/admission/security_context_policy.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr char kCredentialsRoot[] = "/etc/ringmaster";

// The only reserved variable that users may set (worker/trainer/telemetry/audit_log.h).
constexpr char kAuditLogVariable[] = "RINGMASTER_AUDIT_LOG";

// Returns the path as an absolute path without ".", ".." and repeated slashes.
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

void CheckEnvironment(const json& container, const std::string& path, Findings& found) {
  found.ForEach(container, "env", path, [&](const json& variable, const std::string& at) {
    const std::string name = kube::GetString(variable, {"name"});
    if (name.starts_with("RINGMASTER_") && name != kAuditLogVariable) {
      found.Add(at + ".name",
                "must not start with \"RINGMASTER_\", which is reserved for Ringmaster; choose "
                "another name");
    }
  });
}

void CheckMount(const json& mount, const std::string& path, Findings& found) {
  if (kube::GetString(mount, {"name"}).starts_with("ringmaster-")) {
    found.Add(path + ".name",
              "names an internal volume of Ringmaster; mount a volume from spec.worker.volumes or "
              "the template");
  }
  const std::string target = NormalPath(kube::GetString(mount, {"mountPath"}));
  const auto is_in = [&](const std::string& ours) {
    return target == ours || target.starts_with(ours + "/");
  };
  if (is_in(kCredentialsRoot)) {
    found.Add(
        path + ".mountPath",
        "is below /etc/ringmaster, where the job's credentials are mounted; choose another path");
  }
  if (is_in(control::kCheckpointDir)) {
    found.Add(path + ".mountPath",
              "is where spec.checkpoint.volume is mounted; choose another path");
  }
  if (is_in(control::kToolsFolder)) {
    found.Add(path + ".mountPath",
              "is where Ringmaster mounts its programs (spec.inject); choose another path");
  }
  if (is_in(control::kDataSourceDir) || is_in(control::kDataDir)) {
    found.Add(path + ".mountPath",
              "is where the volumes of spec.dataCache are mounted; choose another path");
  }
  if (kube::GetString(mount, {"mountPropagation"}) == "Bidirectional") {
    found.Add(path + ".mountPropagation", kBeyondRestricted);
  }
}

void CheckPorts(const json& container, const std::string& path, Findings& found) {
  found.ForEach(container, "ports", path, [&](const json& port, const std::string& at) {
    const json* host_port = kube::Find(port, {"hostPort"});
    if (host_port != nullptr && *host_port != json(0)) {
      found.Add(at + ".hostPort", kBeyondRestricted);
    }
    found.RefuseSet(port, "hostIP", at, kBeyondRestricted);
  });
}

void CheckProbes(const json& container, const std::string& path, Findings& found) {
  const auto check_handler = [&](const json* handler, const std::string& at) {
    if (handler == nullptr) return;
    for (const char* kind : {"httpGet", "tcpSocket"}) {
      if (!kube::GetString(*handler, {kind, "host"}).empty()) {
        found.Add(
            at + "." + kind + ".host",
            "is rejected, because the kubelet would connect to it on behalf of the job; remove it");
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

}  // namespace

void CheckContainer(const json& container, const std::string& path, const JobRules& rules,
                    Findings& found) {
  if (kube::GetString(container, {"name"}).starts_with("ringmaster-")) {
    found.Add(path + ".name",
              "must not start with \"ringmaster-\", which is reserved for Ringmaster; choose "
              "another name");
  }
  found.IfObject(container, "securityContext", path,
                 [&](const json& context, const std::string& at) {
                   CheckContainerSecurityContext(context, at, rules, found);
                 });
  CheckEnvironment(container, path, found);
  found.ForEach(container, "volumeMounts", path,
                [&](const json& mount, const std::string& at) { CheckMount(mount, at, found); });
  CheckPorts(container, path, found);
  CheckProbes(container, path, found);
}

void CheckManagedContainer(const json& container, const std::string& path, const std::string& name,
                           Findings& found) {
  for (const char* field : {"command", "args"}) {
    const json* words = kube::Find(container, {field});
    if (words != nullptr && !(words->is_array() && words->empty())) {
      found.Add(path + "." + field, "is set by Ringmaster; set the job's spec.command instead");
    }
  }
  for (const char* field :
       {"terminationMessagePath", "terminationMessagePolicy", "restartPolicy"}) {
    found.RefuseSet(container, field, path, kByRingmaster);
  }
  if (name != control::kLauncherContainer) return;
  for (const char* kind : {"limits", "requests"}) {
    const json* amounts = kube::Find(container, {"resources", kind});
    if (amounts != nullptr && amounts->is_object() && amounts->contains("nvidia.com/gpu")) {
      found.Add(path + ".resources." + kind + "[nvidia.com/gpu]",
                "is rejected, because the launcher does not use GPUs; request them for the worker "
                "container");
    }
  }
}

}  // namespace ringmaster::job
