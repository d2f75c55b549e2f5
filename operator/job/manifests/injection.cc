#include "operator/job/manifests/injection.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "operator/job/admission/gpu_resources.h"
#include "operator/job/admission/request_policy.h"
#include "operator/job/manifests/pod_parts.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr char kRoom[] = "64Mi";
constexpr int kUser = 1000;

bool HasThem(const Injection& injection, std::string_view image) {
  return std::ranges::any_of(injection.own_images, [&](const std::string& prefix) {
    return IsUnderPrefix(image, prefix);
  });
}

}  // namespace

void Inject(const Injection& injection, api::InjectMode mode, json& spec, json& container) {
  if (injection.image.empty() || mode == api::InjectMode::kNone) return;
  const std::string image = kube::GetString(container, {"image"});
  if (mode == api::InjectMode::kAuto && HasThem(injection, image)) return;
  // Images of others mostly run as root, which is refused; ours would need no such default.
  Default(ObjectAt(spec, "securityContext"), "runAsUser", kUser);
  ListAt(spec, "volumes").push_back({{"name", kToolsName}, {"emptyDir", {{"sizeLimit", kRoom}}}});
  const json mount = {{"name", kToolsName}, {"mountPath", control::kToolsFolder}};
  json read_only = mount;
  read_only["readOnly"] = true;
  ListAt(container, "volumeMounts").push_back(std::move(read_only));
  json& command = container["command"];
  command[0] = std::string(control::kToolsFolder) + "/bin/" + command[0].get<std::string>();
  json copies = {
      {"name", kToolsName},
      {"image", injection.image},
      {"command", {"/ringmaster/bin/ringmaster-tools", "install", control::kToolsFolder}},
      {"securityContext", {{"readOnlyRootFilesystem", true}}},
      {"resources",
       {{"requests", {{"cpu", "10m"}, {"memory", "16Mi"}}},
        {"limits", {{"cpu", "1"}, {"memory", "64Mi"}}}}}};
  copies["volumeMounts"] = json::array({mount});
  AddVariable(copies, kVisibleGpus, kNoVisibleGpus);
  json& before = ListAt(spec, "initContainers");
  before.insert(before.begin(), std::move(copies));
}

}  // namespace ringmaster::job
