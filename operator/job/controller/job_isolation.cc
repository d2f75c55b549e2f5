#include "operator/job/controller/job_isolation.h"

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "operator/api/codec.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/manifests/network_policies.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

JobIsolation::JobIsolation(JobRequests& requests, const JobMemory& memory)
    : requests_(requests), memory_(memory), admitted_(memory.admitted) {}

void JobIsolation::Keep(const Plan& plan) {
  if (plan.admit_nodes) admitted_ = *plan.admit_nodes;
  if (plan.isolate) {
    Check();
  } else if (plan.admit_nodes && !AdmitNodes()) {
    return;
  }
  if (plan.admit_nodes) requests_.Note([&](ActResult& result) { result.admitted = admitted_; });
}

void JobIsolation::Check() {
  bool isolated = true;
  for (const json& manifest : Policies()) isolated = Mend(manifest) && isolated;
  if (NoteIsolation(isolated)) requests_.NoteAgain();  // to update the condition
}

bool JobIsolation::AdmitNodes() {
  const api::TrainingJob& job = requests_.job();
  const json patch{{"spec", {{"ingress", Policies()[1]["spec"]["ingress"]}}}};
  const Result<json> stored = requests_.client().Patch(
      kube::kNetworkPolicies, job.ns, api::LauncherNetworkPolicyName(job.name, job.uid), patch);
  if (stored.ok()) return true;
  if (stored.error().kind != ErrorKind::kNotFound) {
    requests_.NoteError(stored.error());
    return false;
  }
  Post();
  return true;
}

void JobIsolation::Post() {
  const std::optional<IsolationCheck> seen = requests_.SoFar().isolation;
  const bool known =
      seen ? seen->isolated
           : IsolationCheckDue(memory_.isolation, requests_.tools().clock.Now()).count() > 0;
  bool isolated = true;
  for (const json& manifest : Policies()) {
    const Result<json> created =
        requests_.client().Create(kube::kNetworkPolicies, requests_.job().ns, manifest);
    if (created.ok()) continue;
    if (created.error().kind != ErrorKind::kAlreadyExists) {
      requests_.NoteNotCreated(kube::kNetworkPolicies, created.error(), manifest);
      isolated = false;
    } else if (!known) {
      isolated = Mend(manifest) && isolated;
    }
  }
  if (!known || !isolated) NoteIsolation(isolated);
}

bool JobIsolation::Mend(const json& manifest) {
  const api::TrainingJob& job = requests_.job();
  const std::string name = kube::GetString(manifest, {"metadata", "name"});
  const Result<json> stored = requests_.client().Get(kube::kNetworkPolicies, job.ns, name);
  const bool gone = !stored.ok() && stored.error().kind == ErrorKind::kNotFound;
  if (gone) {
    if (!requests_.Create(kube::kNetworkPolicies, manifest)) return false;
  } else if (!stored.ok()) {
    requests_.NoteError(stored.error());
    return false;
  } else {
    if (!requests_.IsOwn(kube::kNetworkPolicies, name, *stored)) return false;
    const json* spec = kube::Find(*stored, {"spec"});
    if (spec != nullptr && *spec == manifest["spec"]) return true;
    const json patch{
        {"metadata",
         {{"resourceVersion", kube::GetString(*stored, {"metadata", "resourceVersion"})}}},
        {"spec",
         spec == nullptr ? manifest["spec"] : kube::MakeMergePatch(*spec, manifest["spec"])}};
    const Result<json> mended =
        requests_.client().Patch(kube::kNetworkPolicies, job.ns, name, patch);
    if (!mended.ok()) {
      if (mended.error().kind == ErrorKind::kConflict) {
        requests_.NoteAgain();
      } else {
        requests_.NoteError(mended.error());
      }
      return false;
    }
  }
  LogWarn("Restored a NetworkPolicy",
          {{"job", requests_.key()}, {"name", name}, {"was_gone", gone}});
  // Record an event only if the condition NetworkIsolated was true.
  if (!api::IsTrue(job.status.conditions, api::kNetworkIsolated)) return true;
  requests_.Record({.warning = true,
                    .reason = api::kEventPolicyRestored,
                    .action = api::kActionCreate,
                    .note = "the NetworkPolicy " + name + " of this job was " +
                            (gone ? "deleted" : "changed") + "; the operator restored it"});
  return true;
}

// Keeps the previous result if the API server did not answer.
bool JobIsolation::NoteIsolation(bool isolated) {
  const ActResult so_far = requests_.SoFar();
  if (!isolated && !so_far.refusal) return false;
  const std::optional<IsolationCheck>& latest =
      so_far.isolation ? so_far.isolation : memory_.isolation;
  const bool before = latest && latest->isolated;
  requests_.Note([&](ActResult& result) {
    result.isolation = {.isolated = isolated,
                        .why_not = isolated ? std::string() : so_far.refusal->message,
                        .at = requests_.tools().clock.Now()};
  });
  return isolated != before;
}

std::array<json, 2> JobIsolation::Policies() const {
  const api::TrainingJob& job = requests_.job();
  return {JobNetworkPolicy(job),
          LauncherNetworkPolicy(job, requests_.tools().isolation.operator_ns, admitted_)};
}

}  // namespace ringmaster::job
