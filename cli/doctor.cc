#include "cli/doctor.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/profiles.h"
#include "cli/terminal.h"
#include "common/base/count_text.h"
#include "common/base/cut_text.h"
#include "operator/api/names.h"
#include "operator/kube/json_access.h"

namespace ringmaster::cli {
namespace {

using kube::GetString;
using nlohmann::json;
using enum Check::Result;

constexpr char kPlatform[] = "; ask the platform team";

// Returns a warning, not a failure: a user who may not read an object can have a working cluster.
Check Unseen(const char* name, const Error& error) {
  return {name, kWarn, "cannot be read: " + error.message};
}

Check CrdCheck(const Result<std::string>& discovery) {
  constexpr char kName[] = "CRDs";
  if (!discovery.ok() && discovery.error().kind != ErrorKind::kNotFound) {
    return {kName, kFail, discovery.error().message};
  }
  const auto list =
      discovery.ok() ? kube::ParseServerJson(*discovery) : Result<json>(json::object());
  std::vector<std::string> missing{"trainingjobs", "localtrainingprofiles", "trainingprofiles"};
  if (list.ok()) {
    for (const json& resource : kube::GetArray(*list, {"resources"})) {
      std::erase(missing, GetString(resource, {"name"}));
    }
  }
  if (missing.empty())
    return {kName, kOk, "TrainingJobs and TrainingProfiles are installed, v1alpha1"};
  return {kName, kFail,
          "ringmaster.dev/v1alpha1 lacks " + ListText(missing) + "; install Ringmaster's chart" +
              kPlatform};
}

Check OperatorCheck(const Result<json>& deployments) {
  constexpr char kName[] = "operator";
  if (!deployments.ok()) return Unseen(kName, deployments.error());
  const json& items = kube::GetArray(*deployments, {"items"});
  if (items.empty()) {
    return {kName, kFail,
            std::string("no operator is installed; install Ringmaster's chart") + kPlatform};
  }
  std::string text;
  bool any = false;
  for (const json& item : items) {
    const std::string version =
        GetString(item, {"metadata", "labels", "app.kubernetes.io/version"}, "unknown");
    const int64_t available = kube::GetInt64(item, {"status", "availableReplicas"}).value_or(0);
    any = any || available > 0;
    text += (text.empty() ? "" : "; ") + GetString(item, {"metadata", "namespace"}) + "/" +
            GetString(item, {"metadata", "name"}) + ", version " + version + ", " +
            CountText(available, "replica") + " available";
    if (version != RINGMASTER_VERSION) text += " (this plugin is " RINGMASTER_VERSION ")";
  }
  if (any) return {kName, kOk, text};
  return {kName, kFail, text + "; check the events and logs of its Pods"};
}

struct Right {
  const char* verb;
  const char* resource;  // may have a subresource: "pods/log"
  bool needed;
};
constexpr Right kRights[] = {{"create", kJobs, true},
                             {"watch", kJobs, true},
                             {"patch", kJobs, true},
                             {"list", "pods", true},
                             {"get", "pods/log", false},
                             {"list", "events", false},
                             {"get", "controllerrevisions.apps", false}};

// kubectl takes "pods/log" for the Pod named "log", so the subresource is a separate argument.
Arguments QuestionAbout(const Right& right) {
  const std::string resource = right.resource;
  const std::size_t slash = resource.find('/');
  Arguments question = {"auth", "can-i", right.verb, resource.substr(0, slash)};
  if (slash != std::string::npos) {
    question.push_back("--subresource=" + resource.substr(slash + 1));
  }
  return question;
}

// Checks the user's permissions. `kubectl auth can-i` exits with an error if the answer is no.
Check RightsCheck(const std::vector<Result<std::string>>& answers) {
  std::vector<std::string> lacks;
  bool fails = false;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].ok() && answers[i]->starts_with("yes")) continue;
    lacks.push_back(std::string(kRights[i].verb) + " " + kRights[i].resource);
    fails = fails || kRights[i].needed;
  }
  if (lacks.empty())
    return {"permissions", kOk,
            "you may create jobs in this namespace and read their Pods, logs and events"};
  return {"permissions", fails ? kFail : kWarn,
          "you may not " + ListText(lacks) +
              " in this namespace; the ClusterRole edit grants all of these"};
}

bool IsDevice(std::string_view resource) {
  return resource.starts_with("nvidia.com/gpu") || resource.starts_with("nvidia.com/mig-") ||
         resource == "amd.com/gpu" || resource.starts_with("gpu.intel.com/");
}

bool IsReady(const json& node) {
  if (kube::GetBool(node, {"spec", "unschedulable"})) return false;
  const json& conditions = kube::GetArray(node, {"status", "conditions"});
  return std::any_of(conditions.begin(), conditions.end(), [](const json& condition) {
    return GetString(condition, {"type"}) == "Ready" && GetString(condition, {"status"}) == "True";
  });
}

Check NodesCheck(const Result<json>& nodes) {
  constexpr char kName[] = "nodes, GPUs";
  if (!nodes.ok()) return Unseen(kName, nodes.error());
  int64_t ready = 0;
  std::map<std::string, int64_t> devices;
  for (const json& node : kube::GetArray(*nodes, {"items"})) {
    if (!IsReady(node)) continue;
    ++ready;
    for (const auto& [resource, amount] : kube::GetStringMap(node, {"status", "allocatable"})) {
      const auto count = kube::ReadWholeQuantity(amount);
      if (IsDevice(resource) && count) devices[resource] += *count;
    }
  }
  std::erase_if(devices, [](const auto& device) { return device.second == 0; });
  if (ready == 0)
    return {kName, kFail, "no node is ready and schedulable; run \"kubectl get nodes\""};
  std::string text = CountText(ready, "node", "is", "are") + " ready";
  for (const auto& [resource, count] : devices)
    text += ", " + std::to_string(count) + " " + resource;
  if (!devices.empty()) return {kName, kOk, text};
  return {kName, kWarn,
          text +
              ", but none has GPUs: only jobs without GPUs can run; to use GPUs, install the "
              "device plugin of their vendor"};
}

Check StorageCheck(const Result<json>& classes) {
  constexpr char kName[] = "storage class";
  if (!classes.ok()) return Unseen(kName, classes.error());
  for (const json& item : kube::GetArray(*classes, {"items"})) {
    if (GetString(item, {"metadata", "annotations",
                         "storageclass.kubernetes.io/is-default-class"}) == "true") {
      return {kName, kOk,
              GetString(item, {"metadata", "name"}) + " (" + GetString(item, {"provisioner"}) +
                  ") is the default; checkpoints of jobs on several nodes need ReadWriteMany, "
                  "which not every class supports"};
    }
  }
  return {kName, kWarn,
          "no storage class is the default; name a class or a volume in claims for checkpoints and "
          "data"};
}

Check PodSecurityCheck(const Result<json>& ns) {
  constexpr char kName[] = "Pod Security";
  if (!ns.ok()) return Unseen(kName, ns.error());
  const std::string level =
      GetString(*ns, {"metadata", "labels", "pod-security.kubernetes.io/enforce"});
  if (level.empty() || level == "privileged") {
    return {kName, kOk,
            "this namespace does not enforce a Pod Security level: a user who may create Pods in "
            "it can take control of nodes; \"restricted\" is enough for ordinary jobs"};
  }
  return {kName, kOk,
          "this namespace enforces \"" + level +
              "\", which admits ordinary jobs; profiles with hostNetwork, root or privileged need "
              "\"privileged\""};
}

Check PoliciesCheck(const Result<json>& agents) {
  constexpr char kName[] = "NetworkPolicies";
  constexpr std::string_view kEnforcing[] = {
      "calico-node", "cilium", "antrea-agent",          "kube-router", "ovnkube-node",
      "weave-net",   "canal",  "kube-network-policies", "netd"};
  constexpr char kTest[] =
      "the API does not show whether they are enforced; to test it, deny all ingress to a Pod with "
      "a NetworkPolicy and connect to it from another Pod";
  if (!agents.ok()) return {kName, kWarn, kTest};
  for (const json& agent : kube::GetArray(*agents, {"items"})) {
    const std::string name = GetString(agent, {"metadata", "name"});
    if (std::find(std::begin(kEnforcing), std::end(kEnforcing), name) != std::end(kEnforcing)) {
      return {
          kName, kOk,
          name + " is running; it enforces NetworkPolicies unless its configuration disables this"};
    }
  }
  return {kName, kWarn, kTest};
}

Check ProfilesCheck(const Result<json>& profiles) {
  constexpr char kName[] = "profiles";
  if (!profiles.ok()) return Unseen(kName, profiles.error());
  std::vector<std::string> names;
  for (const json& profile : kube::GetArray(*profiles, {"items"})) {
    names.push_back(GetString(profile, {"metadata", "name"}));
    if (kube::GetBool(profile, {"spec", "default"})) names.back() += " (default)";
  }
  if (names.empty())
    return {kName, kOk, "no profile is available; jobs of this namespace get ordinary Pods"};
  return {kName, kOk, "jobs of this namespace can use " + ListText(names)};
}

const char* WordOf(Check::Result result) {
  return result == kOk ? "OK" : result == kWarn ? "WARN" : "FAIL";
}

}  // namespace

std::vector<Check> RunChecks(const Kubectl& kubectl) {
  const Result<std::string> discovery =
      kubectl.Run({"get", "--raw", "/apis/ringmaster.dev/v1alpha1"});
  std::vector<Check> checks{CrdCheck(discovery)};
  const bool reached = discovery.ok() || discovery.error().kind == ErrorKind::kNotFound;
  if (!reached) return checks;

  const auto read = kubectl.GetAll(
      {{"deployments.apps", "--all-namespaces",
        "--selector=app.kubernetes.io/name=ringmaster,app.kubernetes.io/component=operator"},
       {"nodes"},
       {"storageclasses.storage.k8s.io"},
       {"namespaces", kubectl.Namespace()},
       {"daemonsets.apps", "--all-namespaces"},
       {kLocalProfiles}});
  std::vector<Arguments> questions;
  for (const Right& right : kRights) questions.push_back(QuestionAbout(right));
  const auto answers = kubectl.RunAll(questions);

  checks.push_back(OperatorCheck(read[0]));
  checks.push_back(RightsCheck(answers));
  checks.push_back(ProfilesCheck(read[5]));
  checks.push_back(NodesCheck(read[1]));
  checks.push_back(StorageCheck(read[2]));
  checks.push_back(PodSecurityCheck(read[3]));
  checks.push_back(PoliciesCheck(read[4]));
  return checks;
}

bool AnyFailed(const std::vector<Check>& checks) {
  return std::any_of(checks.begin(), checks.end(),
                     [](const Check& check) { return check.result == kFail; });
}

std::string ChecksText(const std::vector<Check>& checks) {
  std::vector<std::vector<std::string>> rows;
  for (const Check& check : checks)
    rows.push_back({WordOf(check.result), check.name, check.message});
  return Columns(rows);
}

json ChecksJson(const std::vector<Check>& checks) {
  json list = json::array();
  for (const Check& check : checks) {
    list.push_back(
        {{"check", check.name}, {"result", WordOf(check.result)}, {"message", check.message}});
  }
  return list;
}

}  // namespace ringmaster::cli
