#include "operator/job/manifests/injection.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "operator/job/admission/gpu_resources.h"
#include "operator/job/admission/pod_policy.h"
#include "operator/job/admission/rights_policy.h"
#include "operator/job/manifests/manifests.h"
#include "operator/job/manifests/pod_parts.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr char kRoom[] = "64Mi";
constexpr int kUser = 1000;

std::string ImageOf(const std::string& template_json, std::string_view name,
                    const std::string& otherwise) {
  const json user = ParseTemplate(template_json);
  const json* spec = kube::Find(user, {"spec"});
  const json* container = spec == nullptr ? nullptr : FindContainer(*spec, name);
  return container == nullptr ? otherwise : kube::GetString(*container, {"image"}, otherwise);
}

bool NeedsInjection(const Injection& injection, const api::TrainingJobSpec& job) {
  if (job.inject == api::InjectMode::kNone) return false;
  if (job.inject != api::InjectMode::kAuto) return true;
  const auto lacks_them = [&](const std::string& image) {
    return std::ranges::none_of(injection.own_images, [&](const std::string& prefix) {
      return IsUnderPrefix(image, prefix);
    });
  };
  return lacks_them(ImageOf(job.worker.template_json, control::kWorkerContainer, job.image)) ||
         lacks_them(ImageOf(job.launcher_template_json, control::kLauncherContainer, job.image));
}

// Returns an image's name without its tag and digest.
std::string_view RepositoryOf(std::string_view image) {
  image = image.substr(0, image.find('@'));
  const std::size_t tag = image.rfind(':');
  const bool of_port = tag != std::string_view::npos && image.find('/', tag) != std::string::npos;
  return of_port ? image : image.substr(0, tag);
}

// Sets a user other than root, because most images run as root, which "restricted" rejects. Does
// not change the user if the template allows root.
void DefaultUser(json& spec, const json& container) {
  json& context = ObjectAt(spec, "securityContext");
  for (const json* one : {kube::Find(spec, {"securityContext", "runAsNonRoot"}),
                          kube::Find(container, {"securityContext", "runAsNonRoot"})}) {
    if (one != nullptr && *one == json(false)) return;
  }
  Default(context, "runAsUser", kUser);
}

// Returns the main container's CPU and memory for an init container: with the same values, the
// Pod's QoS class and total requests do not change.
json ResourcesLike(const json& container) {
  json resources = json::object();
  for (const char* part : {"requests", "limits"}) {
    for (const char* resource : {"cpu", "memory"}) {
      const json* amount = kube::Find(container, {"resources", part, resource});
      if (amount != nullptr) resources[part][resource] = *amount;
    }
  }
  return resources;
}

json CopyingContainer(const std::string& tools_image, const json& container) {
  json copies = {
      {"name", kToolsName},
      {"image", tools_image},
      {"command", {"/ringmaster/bin/ringmaster-tools", "install", control::kToolsFolder}},
      {"securityContext", {{"readOnlyRootFilesystem", true}, {"allowPrivilegeEscalation", false}}},
      {"resources", ResourcesLike(container)}};
  copies["securityContext"]["capabilities"]["drop"] = json::array({"ALL"});
  copies["volumeMounts"] =
      json::array({{{"name", kToolsName}, {"mountPath", control::kToolsFolder}}});
  AddVariable(copies, kVisibleGpus, kNoVisibleGpus);
  return copies;
}

}  // namespace

std::string ToolsImageOf(const Injection& injection, const api::TrainingJobSpec& job) {
  return NeedsInjection(injection, job) ? injection.image : "";
}

std::string ToolsImageOfRun(const std::string& pinned, const Injection& injection,
                            const api::TrainingJobSpec& job) {
  if (pinned.empty() || RepositoryOf(pinned) == RepositoryOf(injection.image)) return pinned;
  return ToolsImageOf(injection, job);
}

void Inject(const std::string& tools_image, api::InjectMode mode, json& spec, json& container) {
  if (tools_image.empty()) return;
  DefaultUser(spec, container);
  json mount = {{"name", kToolsName}, {"mountPath", control::kToolsFolder}, {"readOnly", true}};
  json& command = container["command"];
  command[0] = std::string(control::kToolsFolder) + "/bin/" + command[0].get<std::string>();
  json volume = {{"name", kToolsName}};
  if (mode == api::InjectMode::kImageVolume) {
    volume["image"]["reference"] = tools_image;
    mount["subPath"] = "ringmaster";
  } else {
    volume["emptyDir"]["sizeLimit"] = kRoom;
    json& before = ListAt(spec, "initContainers");
    before.insert(before.begin(), CopyingContainer(tools_image, container));
  }
  ListAt(spec, "volumes").push_back(std::move(volume));
  ListAt(container, "volumeMounts").push_back(std::move(mount));
}

}  // namespace ringmaster::job
