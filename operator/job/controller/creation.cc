#include "operator/job/controller/creation.h"

#include <functional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "operator/api/codec.h"
#include "operator/api/names.h"
#include "operator/job/admission/pod_policy.h"
#include "operator/job/controller/deletion.h"
#include "operator/job/controller/refusal.h"
#include "operator/job/controller/run_pin.h"
#include "operator/job/manifests/injection.h"
#include "operator/job/manifests/manifests.h"
#include "operator/job/manifests/services.h"
#include "operator/job/policy/ownership.h"
#include "operator/job/policy/replacement_policy.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

Creation::Creation(JobRequests& requests, StatusWriter& status, JobIsolation& isolation,
                   const ActorInput& input)
    : requests_(requests),
      status_(status),
      isolation_(isolation),
      input_(input),
      pinned_(input.memory.pin.has_value()),
      tools_image_(pinned_ ? ToolsImageOfRun(input.memory.pin->tools_image,
                                             requests.tools().injection, input.job.spec)
                           : ToolsImageOf(requests.tools().injection, input.job.spec)) {
  if (input.observed.launcher_service != nullptr) {
    launcher_address_ = input.observed.launcher_service->cluster_ip;
  }
}

void Creation::Prepare(const Plan& plan) {
  if (plan.CreatesPods() && !JudgeText()) return;
  std::vector<std::function<void()>> requests;
  if (plan.CreatesFirstLauncher()) requests.emplace_back([this] { PostLauncher(1); });
  if (plan.raise_term) requests.emplace_back([&] { status_.WriteStatus(plan); });
  if (plan.pin) requests.emplace_back([this] { PostPin(); });
  if (plan.CreatesPods()) requests.emplace_back([this] { PostSecret(); });
  if (plan.create_services) {
    const int64_t term = plan.create_launcher.value_or(input_.job.status.launcher_term);
    requests.emplace_back(
        [this] { (void)requests_.Create(kube::kServices, WorkerService(input_.job)); });
    requests.emplace_back([this, term] { PostLauncherService(term); });
  }
  if (plan.point_service_at) {
    requests.emplace_back([this, term = *plan.point_service_at] {
      PatchLauncherService(LauncherServiceTermPatch(term));
    });
  }
  if (plan.claim_service) {
    requests.emplace_back([this] {
      PatchLauncherService(LauncherServiceOwnerPatch(requests_.tools().installation));
    });
  }
  requests_.RunAll(std::move(requests));
  if (launcher_uid_.empty()) return;
  if (!other_owner_ && !other_text_ && !requests_.SoFar().refusal) return;
  DeletePods(requests_, {{.name = api::LauncherPodName(input_.job.name, 1), .uid = launcher_uid_}});
}

bool Creation::JudgeText() {
  const Judgement judgement = Judge(input_.job, input_.rules);
  judged_ = judgement.allowed;
  if (judged_) return true;
  if (judgement.violations.empty()) {
    requests_.NoteAgain();  // the job has ended, so its texts were removed from memory
  } else {
    requests_.NoteRefusal(JudgedRefusal(judgement.violations, true, requests_.tools().clock.Now()));
  }
  return false;
}

void Creation::CreatePods(const Plan& plan) {
  if (!plan.CreatesPods()) return;
  if (launcher_address_.empty() || !pinned_) return requests_.NoteAgain();
  // Create the policies before a Pod can listen, but after the Service shows who owns the job.
  if (requests_.tools().isolation.enabled) {
    requests_.RunAll({[this] { isolation_.Post(); }});
    if (!requests_.CleanSoFar()) return;
  }
  std::vector<std::function<void()>> requests;
  requests.reserve(plan.create_workers.size() + 1);
  if (plan.create_launcher && !plan.CreatesFirstLauncher()) {
    requests.emplace_back([this, term = *plan.create_launcher] { PostLauncher(term); });
  }
  json common = CommonWorkerPod(Context(), launcher_address_);
  AvoidNodes(common, NodesWithUnhealthyGpus(plan.status.failures));
  for (const int index : plan.create_workers) {
    requests.emplace_back([this, &common, index] { PostWorker(common, index); });
  }
  requests_.RunAll(std::move(requests));
  if (!requests_.CleanSoFar()) return;
  LogInfo("Created Pods", {{"job", requests_.key()},
                           {"workers", plan.create_workers.size()},
                           {"launcher_term", plan.create_launcher.value_or(0)}});
}

PodContext Creation::Context() const {
  return {.judged = *judged_,
          .credentials = *input_.credentials,
          .revision = input_.revision,
          .tools_image = tools_image_};
}

void Creation::PostSecret() {
  json manifest = SecretManifest(input_.job, *input_.credentials);
  Own(manifest, input_.job);
  const Result<json> stored = requests_.client().Create(kube::kSecrets, input_.job.ns, manifest);
  // Accept an existing Secret: its name cannot be guessed, and Pods compare its content with the
  // hashes in their spec.
  if (stored.ok() || stored.error().kind == ErrorKind::kAlreadyExists) return;
  requests_.NoteNotCreated(kube::kSecrets, stored.error(), manifest);
}

// Creates the pin. An existing pin is used, even if its spec differs from the spec in the input.
void Creation::PostPin() {
  const api::TrainingJob& job = input_.job;
  const std::optional<json> stored = requests_.Create(
      kube::kControllerRevisions,
      RunPinManifest(job, input_.rules.profile, tools_image_, api::EncodeRunSpec(job.spec)));
  if (!stored) return;
  Result<RunPin> pin = ReadRunPin(*stored);
  if (!pin.ok()) {
    return requests_.NoteConflict("the ControllerRevision " + api::RunPinName(job.name, job.uid) +
                                  " does not contain the spec of this job's run (" +
                                  pin.error().message + "); delete it");
  }
  pinned_ = true;
  const bool same_spec = pin->revision == input_.revision;
  other_text_ = !same_spec || pin->tools_image != tools_image_;
  if (same_spec) pin->spec = nullptr;
  requests_.Note([&](ActResult& result) { result.pin = *std::move(pin); });
  if (other_text_) requests_.NoteAgain();
}

void Creation::PostLauncherService(int64_t term) {
  const std::string& seed_id = input_.credentials->seed_id;
  const std::string& ours = requests_.tools().installation;
  const std::optional<json> stored =
      requests_.Create(kube::kServices, LauncherService(input_.job, seed_id, ours, term));
  if (!stored) return;
  const std::string seed =
      kube::GetString(*stored, {"metadata", "annotations", api::kAnnotationSeedId});
  const std::string owner =
      kube::GetString(*stored, {"metadata", "annotations", api::kAnnotationInstallation}, ours);
  // An existing Service determines the seed of the keys and the installation that owns the job.
  other_owner_ = seed != seed_id || (owner != ours && !IsHandedOver(input_.job, ours));
  if (other_owner_) return requests_.NoteAgain();
  launcher_address_ = kube::GetString(*stored, {"spec", "clusterIP"});
}

void Creation::PatchLauncherService(const json& patch) {
  const Result<json> stored = requests_.client().Patch(
      kube::kServices, input_.job.ns, api::LauncherServiceName(input_.job.name), patch);
  if (stored.ok()) return requests_.Wrote(kube::kServices, *stored);
  if (stored.error().kind == ErrorKind::kNotFound) return requests_.NoteAgain();
  requests_.NoteError(stored.error());
}

void Creation::PostLauncher(int64_t term) {
  const json manifest = LauncherPod(Context(), term);
  if (!MayPost(manifest)) return;
  requests_.Note([](ActResult& result) { result.unused_term = 0; });
  const Result<json> created = requests_.client().Create(kube::kPods, input_.job.ns, manifest);
  if (created.ok()) {
    launcher_uid_ = kube::GetString(*created, {"metadata", "uid"});
    requests_.Note([](ActResult& result) { result.created = true; });
    return requests_.Wrote(kube::kPods, *created);
  }
  if (created.error().kind == ErrorKind::kAlreadyExists) {
    (void)requests_.JudgeExisting(kube::kPods, api::LauncherPodName(input_.job.name, term));
    return;
  }
  if (CertainlyNotCreated(created.error())) {
    requests_.Note([&](ActResult& result) { result.unused_term = term; });
  }
  requests_.NoteNotCreated(kube::kPods, created.error(), manifest);
}

void Creation::PostWorker(const json& common, int index) {
  // If a quota or policy has refused one worker, it would refuse the others, too. Retry later.
  if (!requests_.CleanSoFar()) return;
  const json manifest = WorkerPod(common, input_.job.name, index);
  if (MayPost(manifest)) (void)requests_.Create(kube::kPods, manifest);
}

bool Creation::MayPost(const json& pod) {
  const std::vector<Violation> found = CheckPod(pod, input_.rules);
  if (!found.empty()) {
    requests_.NoteRefusal(JudgedRefusal(found, true, requests_.tools().clock.Now()));
  }
  return found.empty();
}

}  // namespace ringmaster::job
