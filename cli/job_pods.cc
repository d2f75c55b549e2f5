#include "cli/job_pods.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include <nlohmann/json.hpp>

#include "operator/api/names.h"
#include "operator/kube/json_access.h"

namespace ringmaster::cli {
namespace {

using kube::GetString;
using nlohmann::json;

int64_t NumberIn(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string StateOf(const json& pod, const json* container) {
  if (kube::Find(pod, {"metadata", "deletionTimestamp"}) != nullptr) return "Terminating";
  for (const json& init : kube::GetArray(pod, {"status", "initContainerStatuses"})) {
    const std::string waiting = GetString(init, {"state", "waiting", "reason"});
    if (!waiting.empty() && waiting != "PodInitializing") return "Init:" + waiting;
  }
  if (container != nullptr) {
    for (const char* state : {"waiting", "terminated"}) {
      const std::string reason = GetString(*container, {"state", state, "reason"});
      if (!reason.empty()) return reason;
    }
  }
  for (const json& condition : kube::GetArray(pod, {"status", "conditions"})) {
    if (GetString(condition, {"type"}) == "PodScheduled" &&
        GetString(condition, {"status"}) == "False") {
      return GetString(condition, {"reason"}, "Unschedulable");
    }
  }
  return GetString(pod, {"status", "phase"}, "Unknown");
}

}  // namespace

PodView ReadPod(const json& pod) {
  PodView view{
      .name = GetString(pod, {"metadata", "name"}),
      .uid = GetString(pod, {"metadata", "uid"}),
      .ns = GetString(pod, {"metadata", "namespace"}),
      .launcher = GetString(pod, {"metadata", "labels", api::kLabelRole}) == api::kRoleLauncher,
      .node = GetString(pod, {"spec", "nodeName"}),
      .created = GetString(pod, {"metadata", "creationTimestamp"})};
  view.number = NumberIn(
      GetString(pod, {"metadata", "labels", view.launcher ? api::kLabelTerm : api::kLabelIndex}));
  const json* managed = nullptr;
  for (const json& container : kube::GetArray(pod, {"status", "containerStatuses"})) {
    if (GetString(container, {"name"}) == ContainerOf(view)) managed = &container;
  }
  view.state = StateOf(pod, managed);
  if (managed != nullptr) {
    view.restarts = kube::GetInt64(*managed, {"restartCount"}).value_or(0);
    const bool runs = kube::Find(*managed, {"state", "running"}) != nullptr;
    view.has_ended = kube::Find(*managed, {"state", "terminated"}) != nullptr;
    view.started = runs || view.has_ended || view.restarts > 0;
  }
  return view;
}

bool IsOf(const json& pod, const std::string& job_uid) {
  const std::string role = GetString(pod, {"metadata", "labels", api::kLabelRole});
  return GetString(pod, {"metadata", "labels", api::kLabelJobUid}) == job_uid &&
         (role == api::kRoleLauncher || role == api::kRoleWorker);
}

std::vector<PodView> PodsOf(const json& list, const std::string& job_uid) {
  std::vector<PodView> pods;
  for (const json& pod : kube::GetArray(list, {"items"})) {
    if (IsOf(pod, job_uid)) pods.push_back(ReadPod(pod));
  }
  std::sort(pods.begin(), pods.end(), [](const PodView& a, const PodView& b) {
    return std::tuple(!a.launcher, a.number, a.name) < std::tuple(!b.launcher, b.number, b.name);
  });
  return pods;
}

}  // namespace ringmaster::cli
