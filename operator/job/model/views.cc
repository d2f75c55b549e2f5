#include "operator/job/model/views.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "common/base/cut_text.h"
#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "common/control/verdict.h"
#include "common/json/json.h"
#include "operator/api/names.h"
#include "operator/kube/json_access.h"
#include "operator/kube/object_meta.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

using Labels = std::map<std::string, std::string>;

constexpr char kOutOfServiceTaint[] = "node.kubernetes.io/out-of-service";

int64_t NumberOr(const Labels& labels, const char* name, int64_t otherwise) {
  const auto found = labels.find(name);
  if (found == labels.end()) return otherwise;
  int64_t number = otherwise;
  const char* end = found->second.data() + found->second.size();
  const auto [at, error] = std::from_chars(found->second.data(), end, number);
  return error == std::errc() && at == end ? number : otherwise;
}

// Cuts an annotation to the length of a name, because it may have 256 KiB and there are many Pods.
std::string Name(const std::string& annotation) {
  constexpr std::size_t kMaxNameBytes = 512;
  return CutText(annotation, kMaxNameBytes);
}

Role RoleOf(const Labels& labels) {
  const auto found = labels.find(api::kLabelRole);
  if (found == labels.end()) return Role::kOther;
  if (found->second == api::kRoleWorker) return Role::kWorker;
  return found->second == api::kRoleLauncher ? Role::kLauncher : Role::kOther;
}

PodPhase PhaseOf(const std::string& phase) {
  if (phase == "Running") return PodPhase::kRunning;
  if (phase == "Succeeded") return PodPhase::kSucceeded;
  if (phase == "Failed") return PodPhase::kFailed;
  return phase == "Unknown" ? PodPhase::kUnknown : PodPhase::kPending;
}

void ReadWaiting(const json& status, ContainerView& view) {
  view.waiting_reason = kube::GetString(status, {"state", "waiting", "reason"});
  view.waiting_message = kube::GetString(status, {"state", "waiting", "message"});
}

void ReadManaged(const json& status, ContainerView& view) {
  ReadWaiting(status, view);
  const json* ended = kube::Find(status, {"state", "terminated"});
  if (ended == nullptr) return;
  view.terminated = true;
  view.exit_code = kube::GetInt32(*ended, {"exitCode"}).value_or(0);
  view.signal = kube::GetInt32(*ended, {"signal"}).value_or(0);
  view.ended_reason = kube::GetString(*ended, {"reason"});
  view.ended_message = kube::GetString(*ended, {"message"});
  view.finished_at = kube::GetString(*ended, {"finishedAt"});
}

// Reads the memory limit. Called only for Pods that ran out of memory, to save memory.
void ReadMemoryLimit(const json& object, const std::string& managed, ContainerView& view) {
  for (const json& container : kube::GetArray(object, {"spec", "containers"})) {
    if (kube::GetString(container, {"name"}) != managed) continue;
    view.memory_limit = kube::GetString(container, {"resources", "limits", "memory"});
  }
}

// Reads the request for the resource of which no node has enough. Only this one is kept, because a
// Pod can have many thousand requests. The scheduler treats a limit without a request as a request.
void ReadLackingRequest(const json& object, const std::string& managed, PodView& pod) {
  const std::string resource = InsufficientResource(pod.unschedulable);
  for (const json& container : kube::GetArray(object, {"spec", "containers"})) {
    const std::string name = kube::GetString(container, {"name"});
    for (const char* kind : {"requests", "limits"}) {
      const json* amount = kube::Find(container, {"resources", kind, resource});
      const bool prefer = !pod.request || (name == managed && pod.request->container != managed);
      if (amount == nullptr || !prefer) continue;
      pod.request = {name, amount->is_string() ? amount->get<std::string>() : amount->dump()};
    }
  }
}

ContainerView ReadContainers(const json& object, const std::string& managed) {
  ContainerView view;
  for (const json& status : kube::GetArray(object, {"status", "containerStatuses"})) {
    if (kube::GetString(status, {"name"}) == managed) ReadManaged(status, view);
  }
  if (view.ended_reason == control::kReasonOOMKilled) ReadMemoryLimit(object, managed, view);
  if (view.terminated || !IsNormalWait(view.waiting_reason)) return view;
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    for (const json& status : kube::GetArray(object, {"status", list})) {
      if (!IsNormalWait(kube::GetString(status, {"state", "waiting", "reason"}))) {
        ReadWaiting(status, view);
        return view;
      }
    }
  }
  return view;
}

// Returns true if the status says of every container, sidecars included, that it has terminated.
bool ContainersEnded(const json& object) {
  const auto ended = [](const json& status) {
    return kube::Find(status, {"state", "terminated"}) != nullptr;
  };
  const json& inits = kube::GetArray(object, {"status", "initContainerStatuses"});
  const json& containers = kube::GetArray(object, {"status", "containerStatuses"});
  return !containers.empty() &&
         containers.size() == kube::GetArray(object, {"spec", "containers"}).size() &&
         std::all_of(containers.begin(), containers.end(), ended) &&
         std::all_of(inits.begin(), inits.end(), ended);
}

void ReadConditions(const json& object, PodView& pod) {
  for (const json& condition : kube::GetArray(object, {"status", "conditions"})) {
    const std::string type = kube::GetString(condition, {"type"});
    const bool holds = kube::GetString(condition, {"status"}) == "True";
    if (type == "DisruptionTarget" && holds) {
      pod.disruption = kube::GetString(condition, {"reason"});
    } else if (type == "PodScheduled" && holds) {
      pod.scheduled_at = kube::GetString(condition, {"lastTransitionTime"});
    } else if (type == "PodScheduled" &&
               kube::GetString(condition, {"reason"}) == "Unschedulable") {
      pod.unschedulable = kube::GetString(condition, {"message"}, "no node fits");
    }
  }
}

// Adds the first two addresses of an IPv4 range, or the first address of an IPv6 range.
void AddFirstOf(const std::string& range, std::set<std::string>& addresses) {
  const std::string first = range.substr(0, range.find('/'));
  if (first.empty()) return;
  addresses.insert(first);
  if (first.ends_with(".0")) {
    addresses.insert(first.substr(0, first.size() - 1) + "1");
  }
}

// Returns the extended resources: their names have a domain, and their amounts are integers.
std::map<std::string, int64_t> ExtendedResourcesOf(const json& node) {
  std::map<std::string, int64_t> resources;
  const json* allocatable = kube::Find(node, {"status", "allocatable"});
  if (allocatable == nullptr || !allocatable->is_object()) return resources;
  for (const auto& [resource, amount] : allocatable->items()) {
    if (resource.find('/') == std::string::npos) continue;
    if (const auto whole = kube::ReadWholeQuantity(amount)) resources[resource] = *whole;
  }
  return resources;
}

std::vector<std::string> AddressesOf(const json& node) {
  std::set<std::string> addresses;
  for (const json& address : kube::GetArray(node, {"status", "addresses"})) {
    const std::string type = kube::GetString(address, {"type"});
    if (type != "InternalIP" && type != "ExternalIP") continue;
    addresses.insert(kube::GetString(address, {"address"}));
  }
  for (const json& range : kube::GetArray(node, {"spec", "podCIDRs"})) {
    if (range.is_string()) AddFirstOf(range.get<std::string>(), addresses);
  }
  addresses.erase("");
  return {addresses.begin(), addresses.end()};
}

}  // namespace

Result<PodView> ProjectPod(const json& object) {
  const auto meta = kube::ReadObjectMeta(object);
  if (!meta.ok()) return meta.error();
  const Labels labels = kube::GetStringMap(object, {"metadata", "labels"});
  PodView pod;
  pod.ns = meta->ns;
  pod.name = meta->name;
  pod.uid = meta->uid;
  pod.resource_version = meta->resource_version;
  pod.owner_uid = meta->owner_uid;
  pod.created_at = kube::GetString(object, {"metadata", "creationTimestamp"});
  pod.deleting = kube::Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
  const Labels annotations = kube::GetStringMap(object, {"metadata", "annotations"});
  if (const auto leaving = annotations.find(api::kAnnotationLeaving);
      leaving != annotations.end()) {
    pod.leaving = leaving->second.empty() ? api::kReasonDraining : Name(leaving->second);
  }
  const auto pod_seed = annotations.find(api::kAnnotationSeedId);
  if (pod_seed != annotations.end()) pod.seed_id = Name(pod_seed->second);
  if (const auto revision = labels.find(api::kLabelRevision); revision != labels.end()) {
    pod.revision = Name(revision->second);
  }
  pod.role = RoleOf(labels);
  pod.index = static_cast<int>(NumberOr(labels, api::kLabelIndex, -1));
  pod.term = NumberOr(labels, api::kLabelTerm, 0);
  pod.node = kube::GetString(object, {"spec", "nodeName"});
  pod.ip = kube::GetString(object, {"status", "podIP"});
  pod.phase = PhaseOf(kube::GetString(object, {"status", "phase"}));
  pod.reason = kube::GetString(object, {"status", "reason"});
  pod.message = kube::GetString(object, {"status", "message"});
  ReadConditions(object, pod);
  const char* managed =
      pod.role == Role::kLauncher ? control::kLauncherContainer : control::kWorkerContainer;
  if (!pod.unschedulable.empty()) ReadLackingRequest(object, managed, pod);
  pod.container = ReadContainers(object, managed);
  pod.containers_ended = ContainersEnded(object);
  return pod;
}

Result<ServiceView> ProjectService(const json& object) {
  const auto meta = kube::ReadObjectMeta(object);
  if (!meta.ok()) return meta.error();
  ServiceView service;
  service.ns = meta->ns;
  service.name = meta->name;
  service.uid = meta->uid;
  service.resource_version = meta->resource_version;
  service.owner_uid = meta->owner_uid;
  service.cluster_ip = kube::GetString(object, {"spec", "clusterIP"});
  const Labels annotations = kube::GetStringMap(object, {"metadata", "annotations"});
  const auto seed = annotations.find(api::kAnnotationSeedId);
  if (seed != annotations.end()) service.seed_id = Name(seed->second);
  const auto installation = annotations.find(api::kAnnotationInstallation);
  if (installation != annotations.end()) service.installation = Name(installation->second);
  service.term = NumberOr(kube::GetStringMap(object, {"spec", "selector"}), api::kLabelTerm, 0);
  return service;
}

Result<NodeView> ProjectNode(const json& object) {
  const auto meta = kube::ReadObjectMeta(object);
  if (!meta.ok()) return meta.error();
  NodeView node;
  node.name = meta->name;
  node.unschedulable = kube::GetBool(object, {"spec", "unschedulable"});
  for (const json& taint : kube::GetArray(object, {"spec", "taints"})) {
    node.out_of_service =
        node.out_of_service || kube::GetString(taint, {"key"}) == kOutOfServiceTaint;
  }
  node.addresses = AddressesOf(object);
  node.extended_resources = ExtendedResourcesOf(object);
  for (const json& condition : kube::GetArray(object, {"status", "conditions"})) {
    if (kube::GetString(condition, {"type"}) != "Ready") continue;
    node.ready = kube::GetString(condition, {"status"}) == "True";
    if (!node.ready) node.not_ready_reason = kube::GetString(condition, {"reason"}, "NotReady");
  }
  return node;
}

Result<NamespaceView> ProjectNamespace(const json& object) {
  const auto meta = kube::ReadObjectMeta(object);
  if (!meta.ok()) return meta.error();
  return NamespaceView{
      .name = meta->name,
      .deleting = kube::Find(object, {"metadata", "deletionTimestamp"}) != nullptr};
}

Result<LocalProfileView> ProjectLocalProfile(const json& object) {
  const auto meta = kube::ReadObjectMeta(object);
  if (!meta.ok()) return meta.error();
  const json* spec = kube::Find(object, {"spec"});
  return LocalProfileView{.name = meta->name,
                          .uid = meta->uid,
                          .installation = kube::GetString(
                              object, {"metadata", "annotations", api::kAnnotationInstallation}),
                          .spec = spec == nullptr ? std::string() : DumpJson(*spec)};
}

std::string InsufficientResource(std::string_view scheduler_message) {
  constexpr std::string_view kInsufficient = "Insufficient ";
  const std::size_t found = scheduler_message.find(kInsufficient);
  if (found == std::string_view::npos) return {};
  const std::string_view rest = scheduler_message.substr(found + kInsufficient.size());
  std::string resource(rest.substr(0, rest.find_first_of(", ")));
  if (resource.ends_with('.')) resource.pop_back();
  return resource;
}

bool IsNormalWait(const std::string& waiting_reason) {
  return waiting_reason.empty() || waiting_reason == "ContainerCreating" ||
         waiting_reason == "PodInitializing";
}

}  // namespace ringmaster::job
