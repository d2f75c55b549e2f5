#include "operator/job/controller/profile_trial.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/api/types.h"
#include "operator/job/admission/judgement.h"
#include "operator/job/controller/pod_refusal.h"
#include "operator/job/controller/refusal.h"
#include "operator/job/credentials/credentials.h"
#include "operator/job/manifests/pods.h"
#include "operator/kube/json_access.h"
#include "operator/kube/resource.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

// Adds an item that the profile refers to but does not contain, because a job may contain it.
void AddMissing(const json& named, const char* list, json item, json& spec) {
  const std::string name = kube::GetString(named, {"name"});
  const json& items = kube::GetArray(spec, {list});
  const bool known = std::any_of(items.begin(), items.end(), [&](const json& one) {
    return kube::GetString(one, {"name"}) == name;
  });
  json& all = spec[list];
  if (known || name.empty() || !(all.is_null() || all.is_array())) return;
  item["name"] = name;
  all.push_back(std::move(item));
}

// Completes the profile's template with fields that jobs may set: images, memory, volumes and
// claims. Removes the service account, which exists only in the job's namespace.
void Complete(json& spec) {
  spec.erase("serviceAccountName");
  for (const char* list : {"containers", "initContainers"}) {
    if (!spec.contains(list) || !spec[list].is_array()) continue;
    for (json& container : spec[list]) {
      if (!container.is_object()) continue;
      if (!container.contains("image")) container["image"] = "image";
      for (const json& mount : kube::GetArray(container, {"volumeMounts"})) {
        AddMissing(mount, "volumes", {{"emptyDir", json::object()}}, spec);
      }
      for (const json& claim : kube::GetArray(container, {"resources", "claims"})) {
        AddMissing(claim, "resourceClaims", {{"resourceClaimTemplateName", "claim"}}, spec);
      }
      json& resources = container["resources"];
      if (resources.is_null()) resources = json::object();
      if (!resources.is_object() || resources.contains("requests")) continue;
      const json* memory = kube::Find(resources, {"limits", "memory"});
      resources["requests"] = {{"memory", memory == nullptr ? json("1") : *memory}};
    }
  }
}

std::vector<json> PodsOf(const api::TrainingJob& job, JobRules rules) {
  rules.image_prefixes.reset();  // the image comes from the job
  const Judgement judgement = Judge(job, rules);
  if (!judgement.allowed) return {};
  Credentials credentials;
  credentials.secret_name = "keys";
  for (const auto* items : {&WorkerItems(), &LauncherItems()}) {
    for (const std::string& item : *items) credentials.hashes[item] = "";
  }
  const std::string revision = "trial";
  const PodContext context{
      .judged = *judgement.allowed, .credentials = credentials, .revision = revision};
  std::vector<json> pods;
  pods.push_back(WorkerPod(CommonWorkerPod(context, "192.0.2.1"), job.name, 0));
  pods.push_back(LauncherPod(context, 1));
  for (json& pod : pods) Complete(pod["spec"]);
  return pods;
}

// Returns the message's text about the Pod, after one of two known phrases; empty if none.
std::string TextAboutPod(const std::string& message, const std::string& name) {
  for (const std::string& begin :
       {"Pod \"" + name + "\" is invalid: ", std::string(" cannot be handled as a Pod: ")}) {
    const std::size_t at = message.find(begin);
    if (at != std::string::npos) return message.substr(at + begin.size());
  }
  return {};
}

// Returns true if the Pod's priority class does not exist. The server then checks nothing else.
bool LacksItsClass(const Result<void>& tried) {
  return !tried.ok() &&
         tried.error().message.find("no PriorityClass with name") != std::string::npos;
}

}  // namespace

Result<Trial> TryPods(kube::KubeClient& client, const std::string& ns, const Profile& profile) {
  Trial trial;
  if (profile.workload.text.empty()) return trial;
  api::TrainingJob job;
  job.ns = ns;
  job.name = "trial";
  job.uid = "trial";
  job.spec = profile.workload.spec;
  job.spec.image = "image";
  job.spec.command = {"program"};
  for (json& pod : PodsOf(job, profile.rules)) {
    Result<void> tried = client.TryCreate(kube::kPods, ns, pod);
    if (LacksItsClass(tried)) {
      trial.absent_class = kube::GetString(pod, {"spec", "priorityClassName"});
      for (const char* of_class : {"priorityClassName", "priority", "preemptionPolicy"}) {
        pod["spec"].erase(of_class);
      }
      tried = client.TryCreate(kube::kPods, ns, pod);
    }
    if (tried.ok() || tried.error().kind == ErrorKind::kAlreadyExists) continue;
    if (IsTransient(tried.error())) return tried.error();
    const std::string text =
        TextAboutPod(tried.error().message, kube::GetString(pod, {"metadata", "name"}));
    if (text.empty()) continue;
    trial.refused = InTermsOfSpec(text, pod, job.spec, "spec.workload");
    return trial;
  }
  return trial;
}

}  // namespace ringmaster::job
