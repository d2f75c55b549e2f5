#include "operator/job/admission/security_context_policy.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr std::array kSafeSysctls{
    "kernel.shm_rmid_forced",           "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",        "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",     "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",      "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",          "net.ipv4.tcp_wmem"};
constexpr std::array kSelinuxTypes{"", "container_t", "container_init_t", "container_kvm_t",
                                   "container_engine_t"};

template <typename List>
bool IsListed(const List& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Rejects a field because the profile does not allow `item`, which another profile could allow.
void Deny(const std::string& path, const char* item, const JobRules& rules, Findings& found) {
  found.AddByPolicy(path, "is rejected in namespace " + rules.ns +
                              ", because it gives the Pod rights beyond Pod "
                              "Security \"restricted\"; remove it: " +
                              rules.HowToAllow(item));
}

// Checks fields that both kinds of security context have.
void CheckEither(const json& context, const std::string& path, const JobRules& rules,
                 Findings& found) {
  const json* user = kube::Find(context, {"runAsUser"});
  if (user != nullptr && *user == json(0) && !rules.root) {
    Deny(path + ".runAsUser", "allows.root", rules, found);
  }
  const json* non_root = kube::Find(context, {"runAsNonRoot"});
  if (non_root != nullptr && *non_root != json(true) && !rules.root) {
    Deny(path + ".runAsNonRoot", "allows.root", rules, found);
  }
  for (const char* profile : {"seccompProfile", "appArmorProfile"}) {
    if (kube::GetString(context, {profile, "type"}) == "Unconfined") {
      found.Add(path + "." + profile + ".type", kBeyondRestricted);
    }
  }
  if (!IsListed(kSelinuxTypes, kube::GetString(context, {"seLinuxOptions", "type"}))) {
    found.Add(path + ".seLinuxOptions.type", kBeyondRestricted);
  }
  for (const char* field : {"user", "role"}) {
    if (!kube::GetString(context, {"seLinuxOptions", field}).empty()) {
      found.Add(path + ".seLinuxOptions." + field, kBeyondRestricted);
    }
  }
  found.RefuseSet(context, "windowsOptions", path, kBeyondRestricted);
}

}  // namespace

void CheckPodSecurityContext(const json& context, const std::string& path, const JobRules& rules,
                             Findings& found) {
  CheckEither(context, path, rules, found);
  found.ForEach(context, "sysctls", path, [&](const json& sysctl, const std::string& at) {
    if (!IsListed(kSafeSysctls, kube::GetString(sysctl, {"name"}))) {
      found.Add(at + ".name", kBeyondRestricted);
    }
  });
}

void CheckContainerSecurityContext(const json& context, const std::string& path,
                                   const JobRules& rules, Findings& found) {
  CheckEither(context, path, rules, found);
  for (const char* field : {"privileged", "allowPrivilegeEscalation"}) {
    const json* value = kube::Find(context, {field});
    if (value != nullptr && *value != json(false) && !rules.privileged) {
      Deny(path + "." + field, "allows.privileged", rules, found);
    }
  }
  found.IfObject(
      context, "capabilities", path, [&](const json& capabilities, const std::string& at) {
        const json* added = kube::Find(capabilities, {"add"});
        if (added == nullptr) return;
        const bool allowed =
            added->is_array() && std::all_of(added->begin(), added->end(), [&](const json& one) {
              return one.is_string() && IsListed(rules.capabilities, one.get<std::string>());
            });
        if (!allowed) Deny(at + ".add", "allows.capabilities", rules, found);
      });
  if (kube::GetString(context, {"procMount"}, "Default") != "Default") {
    found.Add(path + ".procMount", kBeyondRestricted);
  }
}

}  // namespace ringmaster::job
