#include "operator/job/admission/rights_policy.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/count_text.h"
#include "common/base/cut_text.h"
#include "common/control/membership.h"
#include "common/control/pod_contract.h"
#include "common/json/json.h"
#include "operator/job/admission/gpu_resources.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

// Returns true if the first part of an image's name is a registry's host and not a part of the
// path, by the rules of container runtimes.
bool IsRegistry(std::string_view part) {
  return part.find_first_of(".:") != std::string_view::npos || part == "localhost";
}

bool Contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Returns a text about the field that prevents the worker's container from running as root, or "".
std::string OtherUserOfWorker(const std::string& template_json) {
  if (template_json.empty()) return "";
  const Result<json> parsed = ParseJson(template_json);
  if (!parsed.ok()) return "";        // template_policy.h reports the error
  std::vector<const json*> contexts;  // a container's context takes precedence over the Pod's
  for (const json& container : kube::GetArray(*parsed, {"spec", "containers"})) {
    if (kube::GetString(container, {"name"}) != control::kWorkerContainer) continue;
    contexts.push_back(kube::Find(container, {"securityContext"}));
  }
  contexts.push_back(kube::Find(*parsed, {"spec", "securityContext"}));
  for (const char* field : {"runAsUser", "runAsNonRoot"}) {
    for (const json* context : contexts) {
      const json* value = context == nullptr ? nullptr : kube::Find(*context, {field});
      if (value == nullptr) continue;
      if (*value != json(0) && *value != json(false)) {
        return std::string(field) + " to " + value->dump();
      }
      break;
    }
  }
  return "";
}

class Requests {
 public:
  Requests(const api::TrainingJobSpec& spec, const JobRules& rules) : spec_(spec), rules_(rules) {}

  std::vector<Violation> Check();

 private:
  void HostReach();
  void Privileged();
  void Template(const std::string& text, const std::string& path, bool worker);
  void Container(const json& container, const std::string& path, bool worker);
  void Image(const std::string& image, const std::string& path);
  void Class(const json& pod_template, const char* field,
             const std::optional<std::vector<std::string>>& allowed, const std::string& path,
             const char* item);
  void Device(const std::string& resource, const std::string& path);
  void Count(const std::string& resource, const json& amount, const std::string& path,
             std::map<std::string, int64_t>& amounts);
  void Environment(const json& container, const std::string& path, bool takes_gpus);
  void Numbers();
  void Programs();

  void Add(const std::string& path, const std::string& why, const std::string& item) {
    found_.push_back({.path = path,
                      .message = "is rejected in namespace " + rules_.ns +
                                 (why.empty() ? "" : ", because " + why) + "; " +
                                 rules_.HowToAllow(item),
                      .by_policy = true});
  }

  const api::TrainingJobSpec& spec_;
  const JobRules& rules_;
  std::vector<Violation> found_;
  // Numbers of devices and GPUs, by resource.
  std::map<std::string, int64_t> per_worker_;
  std::map<std::string, int64_t> of_launcher_;
  bool gpus_unreadable_ = false;
};

void Requests::HostReach() {
  if (spec_.host_network && !rules_.host_network) {
    Add("spec.network.hostNetwork", "", "allows.hostNetwork");
  }
  if (spec_.worker.privileged) Privileged();
  if (spec_.worker.ipc_lock && !Contains(rules_.capabilities, "IPC_LOCK")) {
    Add("spec.worker.ipcLock", "it adds the capability IPC_LOCK", "allows.capabilities");
  }
  for (const auto& [resource, count] : spec_.worker.rdma) {
    Device(resource, "spec.worker.rdma[" + resource + "]");
    per_worker_[resource] += count;
  }
}

// Checks privileges. The capabilities of a privileged container are effective only for root.
void Requests::Privileged() {
  const char* path = "spec.worker.privileged";
  if (const std::string user = OtherUserOfWorker(spec_.worker.template_json); !user.empty()) {
    found_.push_back(
        {.path = path,
         .message = "has no effect unless the worker runs as root, but spec.worker.template sets " +
                    user + "; remove one of the two"});
  }
  std::string missing = rules_.privileged ? "" : "allows.privileged";
  if (!rules_.root) {
    missing += missing.empty() ? "allows.root" : " and spec.allows.root";
  }
  if (missing.empty()) return;
  Add(path,
      "a privileged worker runs as root, so its profile must allow both privileged and root, and "
      "Pod Security of the namespace must allow privileged Pods",
      missing);
}

void Requests::Device(const std::string& resource, const std::string& path) {
  if (!IsDevice(resource) || IsGpu(resource) || Contains(rules_.devices, resource)) return;
  Add(path, "it gives the Pod a device of the node", "allows.devices");
}

void Requests::Class(const json& pod_template, const char* field,
                     const std::optional<std::vector<std::string>>& allowed,
                     const std::string& path, const char* item) {
  const std::string name = kube::GetString(pod_template, {"spec", field});
  if (!allowed || name.empty() || Contains(*allowed, name)) return;
  Add(path + ".spec." + field, "\"" + name + "\" is not in its profile's " + item,
      std::string("limits.") + item);
}

void Requests::Image(const std::string& image, const std::string& path) {
  if (!rules_.image_prefixes || image.empty()) return;
  const auto& allowed = *rules_.image_prefixes;
  const bool ok = std::any_of(allowed.begin(), allowed.end(), [&](const std::string& prefix) {
    return IsUnderPrefix(image, prefix);
  });
  if (ok) return;
  Add(path,
      "images must come from " + (allowed.empty() ? "nowhere" : ListText(allowed)) +
          ", but this one is \"" + image + "\"",
      "limits.imagePrefixes");
}

void Requests::Container(const json& container, const std::string& path, bool worker) {
  Image(kube::GetString(container, {"image"}), path + ".image");
  std::map<std::string, int64_t> most;
  for (const char* kind : {"limits", "requests"}) {
    const json* amounts = kube::Find(container, {"resources", kind});
    if (amounts == nullptr || !amounts->is_object()) continue;
    for (const auto& [resource, amount] : amounts->items()) {
      const std::string at = path + ".resources." + kind + "[" + resource + "]";
      Device(resource, at);
      Count(resource, amount, at, most);
    }
  }
  auto& total = worker ? per_worker_ : of_launcher_;
  for (const auto& [resource, amount] : most) total[resource] += amount;
  const auto& rdma = spec_.worker.rdma;
  const bool by_rdma =
      worker && kube::GetString(container, {"name"}) == control::kWorkerContainer &&
      std::any_of(rdma.begin(), rdma.end(), [](const auto& device) { return IsGpu(device.first); });
  if (rules_.max_gpus) Environment(container, path, by_rdma || TakesGpus(container));
}

// Records a container's quantity of a GPU or limited device: the larger of request and limit.
void Requests::Count(const std::string& resource, const json& amount, const std::string& path,
                     std::map<std::string, int64_t>& amounts) {
  const bool gpu = IsGpuOf(spec_, resource);
  const bool named = rules_.max_devices.contains(resource);
  if (!gpu && !named) return;
  const auto number = kube::ReadWholeQuantity(amount);
  if (number && *number >= 0 && *number <= 1'000'000) {
    int64_t& most = amounts[resource];
    most = std::max(most, *number);
  } else if (named) {
    Add(path, "the value must be a whole number, because the profile limits these devices",
        "limits.devices");
  } else if (rules_.max_gpus) {
    gpus_unreadable_ = true;
    Add(path, "the value must be a whole number, because the profile limits GPUs", "limits.gpus");
  }
}

// Checks variables that expose GPUs. In a container without GPUs, pods.h overrides envFrom.
void Requests::Environment(const json& container, const std::string& path, bool takes_gpus) {
  const auto refuse = [&](const char* list, std::size_t i, const char* what, const char* instead) {
    Add(path + "." + list + "[" + std::to_string(i) + "]",
        "the profile limits GPUs, but " + std::string(what) + " " + kVisibleGpus +
            ", which makes NVIDIA's container runtime expose GPUs that were not requested: " +
            instead,
        "limits.gpus");
  };
  const json& variables = kube::GetArray(container, {"env"});
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (kube::GetString(variables[i], {"name"}) != kVisibleGpus || HidesGpus(variables[i]))
      continue;
    refuse("env", i, "this sets", "remove it and request GPUs with spec.worker.gpus");
  }
  const json& sources = kube::GetArray(container, {"envFrom"});
  for (std::size_t i = 0; takes_gpus && i < sources.size(); ++i) {
    if (!MayNameGpus(sources[i])) continue;
    refuse("envFrom", i, "this may hold",
           "set a prefix, or select single keys with env[].valueFrom");
  }
}

void Requests::Template(const std::string& text, const std::string& path, bool worker) {
  if (text.empty()) return;
  const Result<json> parsed = ParseJson(text);
  if (!parsed.ok()) return;  // template_policy.h reports the error
  const json* claims = kube::Find(*parsed, {"spec", "resourceClaims"});
  if (claims != nullptr && !(claims->is_array() && claims->empty()) && !rules_.resource_claims) {
    Add(path + ".spec.resourceClaims", "it gives the Pod devices of the node",
        "allows.resourceClaims");
  }
  Class(*parsed, "priorityClassName", rules_.priority_classes, path, "priorityClasses");
  Class(*parsed, "runtimeClassName", rules_.runtime_classes, path, "runtimeClasses");
  for (const char* list : {"initContainers", "containers"}) {
    const json& containers = kube::GetArray(*parsed, {"spec", list});
    for (std::size_t i = 0; i < containers.size(); ++i) {
      Container(containers[i], path + ".spec." + list + "[" + std::to_string(i) + "]", worker);
    }
  }
}

void Requests::Numbers() {
  const int64_t workers = spec_.worker.replicas;
  // Check the number of ranks. The API server cannot check it if the slots depend on the GPUs.
  const bool may_grow = spec_.worker.max_replicas.has_value();
  const int64_t most = may_grow ? *spec_.worker.max_replicas : workers;
  const int64_t slots = SlotsPerWorker(spec_);
  if (most * slots > control::kMaxRanks) {
    const std::string field = may_grow ? "spec.worker.maxReplicas" : "spec.worker.replicas";
    found_.push_back({.path = field,
                      .message = "requests " + std::to_string(most * slots) + " ranks (" +
                                 std::to_string(slots) + " on each of " +
                                 CountText(most, "worker") + "), but a job can have at most " +
                                 std::to_string(control::kMaxRanks) + "; lower " + field});
  }
  if (rules_.max_workers && workers > *rules_.max_workers) {
    Add("spec.worker.replicas",
        "a job can have at most " + CountText(*rules_.max_workers, "worker") +
            ", but this one requests " + std::to_string(workers),
        "limits.workers");
  }
  const auto count = [](const std::map<std::string, int64_t>& amounts, const auto& counts) {
    int64_t sum = 0;
    for (const auto& [resource, amount] : amounts) sum += counts(resource) ? amount : 0;
    return sum;
  };
  const auto is_gpu = [&](const std::string& resource) { return IsGpuOf(spec_, resource); };
  const int64_t gpus_per_worker = count(per_worker_, is_gpu);
  const int64_t gpus_of_launcher = count(of_launcher_, is_gpu);
  const int64_t gpus = workers * gpus_per_worker + gpus_of_launcher;
  if (rules_.max_gpus && !gpus_unreadable_ && gpus > *rules_.max_gpus) {
    Add("spec.worker.replicas",
        "a job can have at most " + CountText(*rules_.max_gpus, "GPU") +
            ", but this one requests " + std::to_string(gpus) + " (" +
            std::to_string(gpus_per_worker) + " a worker" +
            (gpus_of_launcher > 0
                 ? " and " + std::to_string(gpus_of_launcher) + " for the launcher)"
                 : ")"),
        "limits.gpus");
  }
  for (const auto& [resource, limit] : rules_.max_devices) {
    const auto is_it = [&name = resource](const std::string& one) { return one == name; };
    const int64_t devices = workers * count(per_worker_, is_it) + count(of_launcher_, is_it);
    if (devices <= limit) continue;
    Add("spec.worker.replicas",
        "a job can have at most " + std::to_string(limit) + " of " + resource +
            ", but this one requests " + std::to_string(devices),
        "limits.devices");
  }
}

void Requests::Programs() {
  const bool asks = spec_.inject == api::InjectMode::kInitContainer ||
                    spec_.inject == api::InjectMode::kImageVolume;
  if (!asks || rules_.has_tools) return;
  found_.push_back({.path = "spec.inject",
                    .message =
                        "requires an image with Ringmaster's programs, which this installation "
                        "does not have; ask the platform team to set one (operator flag "
                        "--tools-image, chart value toolsImage), or use an image that "
                        "contains the programs"});
}

std::vector<Violation> Requests::Check() {
  HostReach();
  Image(spec_.image, "spec.image");
  Template(spec_.worker.template_json, "spec.worker.template", true);
  Template(spec_.launcher_template_json, "spec.launcher.template", false);
  Numbers();
  Programs();
  return std::move(found_);
}

}  // namespace

bool IsUnderPrefix(std::string_view image, std::string_view prefix) {
  if (prefix.empty() || image.substr(0, prefix.size()) != prefix) return false;
  if (image.size() == prefix.size() || prefix.back() == '/') return true;
  const std::string_view rest = image.substr(prefix.size());
  const std::size_t slash = prefix.rfind('/');
  const std::string_view last = slash == std::string_view::npos ? prefix : prefix.substr(slash);
  const bool one_image =
      last.find('@') != std::string_view::npos ||
      (slash != std::string_view::npos && last.find(':') != std::string_view::npos);
  if (one_image) return false;  // a prefix with a tag or digest allows only this image
  // A prefix without a slash or registry is an image of Docker Hub, not an organisation there.
  if (rest.front() == '/') return slash != std::string_view::npos || IsRegistry(prefix);
  // Accept a tag or a digest after the prefix, but not the port of a registry.
  return (rest.front() == ':' || rest.front() == '@') && last.find(':') == std::string_view::npos &&
         rest.find('/') == std::string_view::npos;
}

std::vector<Violation> CheckRequests(const api::TrainingJobSpec& spec, const JobRules& rules) {
  return Requests(spec, rules).Check();
}

}  // namespace ringmaster::job
