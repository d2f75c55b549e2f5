#include "operator/job/controller/actor.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "operator/api/codec.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/admission/pod_policy.h"
#include "operator/job/controller/finalizer.h"
#include "operator/job/controller/job_log.h"
#include "operator/job/controller/pod_refusal.h"
#include "operator/job/controller/refusal.h"
#include "operator/job/controller/run_pin.h"
#include "operator/job/manifests/manifests.h"
#include "operator/job/manifests/network_policies.h"
#include "operator/job/manifests/pods.h"
#include "operator/job/manifests/services.h"
#include "operator/kube/json_access.h"
#include "operator/kube/object_meta.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

// After a refusal, or when somebody else changed an object first.
constexpr std::chrono::milliseconds kLookAgain{10};
// A pass begins no request after that, however slow the API server is: the process is judged by how
// long one takes (/healthz), and the job may need something else meanwhile.
constexpr std::chrono::seconds kPass{60};

}  // namespace

runtime::Event EventOn(const api::TrainingJob& job, const PlannedEvent& event) {
  return {.regarding = {.api_version = api::kApiVersion,
                        .kind = api::kKind,
                        .ns = job.ns,
                        .name = job.name,
                        .uid = job.uid},
          .related = std::nullopt,
          .type = event.warning ? runtime::EventType::kWarning : runtime::EventType::kNormal,
          .reason = event.reason,
          .action = event.action,
          .note = event.note};
}

Actor::Actor(const ActorTools& tools, const api::TrainingJob& job, std::string revision,
             NamespaceRules rules, const Observed& observed,
             std::shared_ptr<const Credentials> credentials, JobMemory& memory)
    : tools_(tools),
      job_(job),
      key_(job.Key()),
      revision_(std::move(revision)),
      rules_(std::move(rules)),
      credentials_(std::move(credentials)),
      memory_(memory),
      failures_before_(memory.refusal ? memory.refusal->failures : 0),
      began_(tools.clock.Now()),
      job_version_(job.resource_version) {
  if (observed.launcher_service != nullptr) {
    launcher_address_ = observed.launcher_service->cluster_ip;
  }
}

Result<std::optional<std::chrono::milliseconds>> Actor::Act(const Plan& plan) {
  if (plan.end_launcher) {
    // A conflict is an error, for the queue's back-off: the store is behind, and may be for long.
    const Result<void> deleted = DeletePod(*plan.end_launcher);
    if (!deleted.ok()) {
      return deleted.error().WithContext("ending the launcher " + plan.end_launcher->name +
                                         " of job " + key_);
    }
  }
  if (plan.unpin) {  // before the status says Suspended: from then on the spec may change
    const Result<void> removed = RemovePin();
    if (!removed.ok()) return removed.error().WithContext("ending the run of job " + key_);
  }
  JudgeText(plan);
  if (CleanSoFar()) Prepare(plan);
  // Its credentials, its Service or its text cannot be had: the next try begins anew.
  if (const std::string uid = UnusableLauncher(); !uid.empty()) {
    Delete({{.name = api::LauncherPodName(job_.name, *plan.create_launcher), .uid = uid}});
  }
  if (plan.isolate && CleanSoFar()) {
    std::vector<std::string> admitted;
    {
      const MutexLock lock(mutex_);
      if (plan.admit_nodes) memory_.admitted = *plan.admit_nodes;
      admitted = memory_.admitted;
    }
    CheckNetworkPolicies(admitted);
  } else if (plan.admit_nodes && CleanSoFar()) {
    AdmitNodes(*plan.admit_nodes);
  }
  if ((plan.hold || plan.let_go) && CleanSoFar()) WriteHold(plan.hold);
  if (CleanSoFar()) CreatePods(plan);
  Mark(plan.marks);
  if (plan.write_status && !StatusWritten() && !JobGone()) WriteStatus(plan);
  if (JobGone()) return plan.requeue_after;
  if (StatusWritten() || !plan.write_status) {
    std::vector<FloatSeconds> drains;
    {
      const MutexLock lock(mutex_);
      drains = DrainTimes(plan, memory_, tools_.clock.Now());
    }
    Delete(plan.deletes);
    if (tools_.observer != nullptr) {
      for (const FloatSeconds took : drains) tools_.observer->OnDrained(took);
    }
    Record(plan.events);
    if (plan.delete_job) DeleteJob();
  }
  const MutexLock lock(mutex_);
  if (refusal_) return Refused();
  if (error_) return *error_;
  if (again_) return LookAgain();
  memory_.looked_again = 0;
  const bool tried = plan.CreatesPods() || plan.create_services;
  const std::optional<Refusal>& known = memory_.refusal;
  if (known && (tried || known->retry_at <= tools_.clock.Now())) {
    memory_.refusal.reset();
    return LookAgain();  // the condition still speaks of it
  }
  return plan.requeue_after;
}

// At once only where the condition does not speak of it yet.
std::optional<std::chrono::milliseconds> Actor::Refused() {
  LogWarn("Could not do what a job needs",
          {{"job", key_}, {"reason", refusal_->reason}, {"message", refusal_->message}});
  const std::optional<Refusal>& known = memory_.refusal;
  const bool told =
      known && known->reason == refusal_->reason && known->message == refusal_->message;
  memory_.refusal = refusal_;
  if (!told) return LookAgain();
  return std::max(kLookAgain, std::chrono::ceil<std::chrono::milliseconds>(refusal_->retry_at -
                                                                           tools_.clock.Now()));
}

// The stores show more in a moment; a store that does not get on is not asked ever so often.
std::optional<std::chrono::milliseconds> Actor::LookAgain() {
  constexpr int kMostDoublings = 9;
  const int times = std::min(memory_.looked_again++, kMostDoublings);
  return kLookAgain * (1 << times);
}

void Actor::RunAll(std::vector<std::function<void()>> requests) {
  for (std::function<void()>& request : requests) {
    request = [this, run = std::move(request)] {
      if (tools_.clock.Now() - began_ > kPass) return NoteAgain();
      try {
        run();
      } catch (const std::exception& thrown) {
        NoteError({ErrorKind::kInternal, std::string("an exception ended a request of job ") +
                                             key_ + ": " + thrown.what()},
                  false);
      }
    };
  }
  tools_.pool.RunAll(key_, std::move(requests));
}

void Actor::JudgeText(const Plan& plan) {
  if (!plan.CreatesPods()) return;
  const Judgement judgement = Judge(job_, rules_);
  judged_ = judgement.allowed;
  if (judged_) return;
  if (judgement.violations.empty()) return NoteAgain();  // of an ended job nothing is kept to judge
  NoteRefusal(JudgedRefusal(judgement.violations, tools_.clock.Now()));
}

void Actor::Prepare(const Plan& plan) {
  std::vector<std::function<void()>> requests;
  if (plan.CreatesFirstLauncher()) requests.emplace_back([this] { PostLauncher(1); });
  if (plan.raise_term) requests.emplace_back([&] { WriteStatus(plan); });
  if (plan.pin) requests.emplace_back([this] { PostPin(); });
  if (plan.CreatesPods()) requests.emplace_back([this] { PostSecret(); });
  if (plan.create_services) {
    const int64_t term = plan.create_launcher.value_or(job_.status.launcher_term);
    requests.emplace_back([this] { PostService(WorkerService(job_), false); });
    requests.emplace_back([this, term] {
      PostService(LauncherService(job_, credentials_->seed_id, tools_.installation, term), true);
    });
  }
  if (plan.point_service_at) {
    requests.emplace_back([this, term = *plan.point_service_at] { PatchServiceTerm(term); });
  }
  RunAll(std::move(requests));
}

void Actor::CreatePods(const Plan& plan) {
  if (!plan.CreatesPods()) return;
  std::string address;
  std::vector<std::string> admitted;
  {
    const MutexLock lock(mutex_);
    if (launcher_address_.empty() || !memory_.pin) {
      again_ = true;
      return;
    }
    address = launcher_address_;
    admitted = memory_.admitted;
  }
  std::vector<std::function<void()>> requests;
  // Before the first Pod listens, and not before the Service says that the job is ours.
  if (tools_.isolation.enabled) {
    RunAll({[this, &admitted] { PostNetworkPolicies(admitted); }});
    if (!CleanSoFar()) return;
  }
  requests.reserve(plan.create_workers.size() + 1);
  if (plan.create_launcher && !plan.CreatesFirstLauncher()) {
    requests.emplace_back([this, term = *plan.create_launcher] { PostLauncher(term); });
  }
  const json common = CommonWorkerPod(
      {.judged = *judged_, .credentials = *credentials_, .revision = revision_}, address);
  for (const int index : plan.create_workers) {
    requests.emplace_back([this, &common, index] { PostWorker(common, index); });
  }
  RunAll(std::move(requests));
  if (!CleanSoFar()) return;
  LogInfo("Created Pods", {{"job", key_},
                           {"workers", plan.create_workers.size()},
                           {"launcher_term", plan.create_launcher.value_or(0)}});
}

void Actor::Mark(const std::vector<PodMark>& pods) {
  std::vector<std::function<void()>> requests;
  for (const PodMark& pod : pods) {
    requests.emplace_back([this, &pod] {
      // UID and version: a Pod that changed since it was chosen is looked at again.
      const json patch{{"metadata",
                        {{"uid", pod.uid},
                         {"resourceVersion", pod.resource_version},
                         {"annotations", {{api::kAnnotationLeaving, pod.reason}}}}}};
      const Result<json> stored = tools_.client.Patch(kube::kPods, job_.ns, pod.name, patch);
      if (stored.ok()) return NoteWrite(kube::kPods, *stored);
      if (stored.error().kind == ErrorKind::kConflict ||
          stored.error().kind == ErrorKind::kNotFound) {
        return NoteAgain();
      }
      NoteError(stored.error(), false);
    });
  }
  RunAll(std::move(requests));
}

void Actor::WriteHold(bool held) {
  const Result<FinalizerWrite> written = WriteFinalizer(tools_.client, job_, held);
  if (!written.ok()) {
    if (written.error().kind == ErrorKind::kConflict) return NoteAgain();
    return NoteError(written.error(), false);
  }
  const MutexLock lock(mutex_);
  if (written->after.empty()) {
    job_gone_ = true;
    return;
  }
  tools_.freshness.Wrote(key_, kube::kTrainingJobs, written->after);
  // What somebody else has written meanwhile is not written over.
  if (written->before == job_version_) job_version_ = written->after;
}

void Actor::WriteStatus(const Plan& plan) {
  if (plan.confirm_claim && !IsStillOurs()) return NoteAgain();
  // A job without a status has no zeros yet either: all of the first one is written.
  const bool first = job_.status == api::TrainingJobStatus{};
  const json old = first ? json::object() : api::EncodeStatus(job_.status);
  std::string version;
  {
    const MutexLock lock(mutex_);
    version = job_version_;
  }
  const json patch{{"metadata", {{"resourceVersion", version}}},
                   {"status", api::MakeMergePatch(old, api::EncodeStatus(plan.status))}};
  const Result<json> stored =
      tools_.client.PatchStatus(kube::kTrainingJobs, job_.ns, job_.name, patch);
  if (stored.ok()) {
    NoteWrite(kube::kTrainingJobs, *stored);
    NoteChange(plan.status);
    const MutexLock lock(mutex_);
    status_written_ = true;
    if (plan.of_reports) memory_.reports.Spend(tools_.clock.Now());
    if (plan.status.progress != job_.status.progress ||
        plan.status.checkpoint != job_.status.checkpoint ||
        plan.status.stragglers != job_.status.stragglers) {
      memory_.progress_written = tools_.clock.Now();
    }
    return;
  }
  const MutexLock lock(mutex_);
  if (stored.error().kind == ErrorKind::kNotFound) {
    job_gone_ = true;
  } else if (stored.error().kind == ErrorKind::kConflict) {
    again_ = true;  // the store will show what somebody else wrote
  } else if (!error_) {
    error_ = stored.error();
  }
}

bool Actor::IsStillOurs() {
  const Result<json> service =
      tools_.client.Get(kube::kServices, job_.ns, api::LauncherServiceName(job_.name));
  if (!service.ok()) {
    if (service.error().kind == ErrorKind::kNotFound) return true;
    NoteError(service.error(), false);
    return false;
  }
  const auto meta = kube::ReadObjectMeta(*service);
  if (!meta.ok() || meta->owner_uid != job_.uid) return true;
  const std::string owner = kube::GetString(
      *service, {"metadata", "annotations", api::kAnnotationInstallation}, tools_.installation);
  return owner == tools_.installation;
}

void Actor::NoteChange(const api::TrainingJobStatus& written) {
  LogJobChange(job_, written);
  const Clock::WallTime now = tools_.clock.WallNow();
  std::optional<Clock::WallTime> phase_since;
  {
    const MutexLock lock(mutex_);
    phase_since = memory_.phase_since;
    if (written.state != job_.status.state) memory_.phase_since = now;
  }
  if (tools_.observer != nullptr) {
    tools_.observer->OnChange(ObserveChange(job_, written, phase_since, now));
  }
}

void Actor::PostSecret() {
  json manifest = SecretManifest(job_, *credentials_);
  Own(manifest, job_);
  const Result<json> stored = tools_.client.Create(kube::kSecrets, job_.ns, manifest);
  // One that exists has our unguessable name, and Pods compare its content with the hashes they
  // carry.
  if (stored.ok() || stored.error().kind == ErrorKind::kAlreadyExists) return;
  NoteError(stored.error(), false);
}

// Whoever comes first has the name; another text than ours is the run's from then on.
void Actor::PostPin() {
  const std::optional<json> stored =
      Post(kube::kControllerRevisions, RunPinManifest(job_, api::EncodeRunSpec(job_.spec)));
  if (!stored) return;
  Result<RunPin> pin = ReadRunPin(*stored);
  if (!pin.ok()) {
    return NoteRefusal(MakeRefusal(
        api::kReasonNameConflict,
        "the ControllerRevision " + api::RunPinName(job_.name, job_.uid) +
            " does not hold the spec of this job's run (" + pin.error().message + "); delete it",
        failures_before_, tools_.clock.Now()));
  }
  const MutexLock lock(mutex_);
  if (pin->revision == revision_) {
    pin->spec = nullptr;
  } else {
    again_ = other_text_ = true;
  }
  memory_.pin = *std::move(pin);
}

Result<void> Actor::RemovePin() {
  std::string uid;
  {
    const MutexLock lock(mutex_);
    uid = memory_.pin->uid;
  }
  const auto deleted = tools_.client.Delete(kube::kControllerRevisions, job_.ns,
                                            api::RunPinName(job_.name, job_.uid), {.uid = uid});
  const MutexLock lock(mutex_);
  if (!deleted.ok() && deleted.error().kind != ErrorKind::kNotFound) {
    // Another one of that name: it is looked at before the next try.
    if (deleted.error().kind == ErrorKind::kConflict) memory_.pin_sought = false;
    return deleted.error();
  }
  memory_.pin.reset();
  return {};
}

void Actor::PostService(json manifest, bool launcher) {
  const std::optional<json> stored = Post(kube::kServices, manifest);
  if (!stored || !launcher) return;
  const std::string seed =
      kube::GetString(*stored, {"metadata", "annotations", api::kAnnotationSeedId});
  const std::string owner = kube::GetString(
      *stored, {"metadata", "annotations", api::kAnnotationInstallation}, tools_.installation);
  const MutexLock lock(mutex_);
  // Keys come from the seed that it names, and the job is whose name it bears.
  if (seed != credentials_->seed_id || owner != tools_.installation) {
    again_ = other_owner_ = true;
    return;
  }
  launcher_address_ = kube::GetString(*stored, {"spec", "clusterIP"});
}

void Actor::PatchServiceTerm(int64_t term) {
  const Result<json> stored =
      tools_.client.Patch(kube::kServices, job_.ns, api::LauncherServiceName(job_.name),
                          LauncherServiceTermPatch(term));
  if (stored.ok()) return NoteWrite(kube::kServices, *stored);
  if (stored.error().kind == ErrorKind::kNotFound) return NoteAgain();
  NoteError(stored.error(), false);
}

std::array<json, 2> Actor::NetworkPolicies(const std::vector<std::string>& addresses) const {
  return {JobNetworkPolicy(job_),
          LauncherNetworkPolicy(job_, tools_.isolation.operator_ns, addresses)};
}

void Actor::PostNetworkPolicies(const std::vector<std::string>& addresses) {
  bool known = false;
  {
    const MutexLock lock(mutex_);
    known = IsolationCheckDue(memory_, tools_.clock.Now()).count() > 0;
  }
  bool isolated = true;
  for (const json& manifest : NetworkPolicies(addresses)) {
    const Result<json> created = tools_.client.Create(kube::kNetworkPolicies, job_.ns, manifest);
    if (created.ok()) continue;
    if (created.error().kind != ErrorKind::kAlreadyExists) {
      NoteError(created.error(), false);
      isolated = false;
    } else if (!known) {
      isolated = MendNetworkPolicy(manifest) && isolated;
    }
  }
  if (!known || !isolated) NoteIsolation(isolated);
}

void Actor::CheckNetworkPolicies(const std::vector<std::string>& addresses) {
  bool isolated = true;
  for (const json& manifest : NetworkPolicies(addresses)) {
    isolated = MendNetworkPolicy(manifest) && isolated;
  }
  if (NoteIsolation(isolated)) NoteAgain();  // the condition does not speak of it yet
}

bool Actor::MendNetworkPolicy(const json& manifest) {
  const std::string name = kube::GetString(manifest, {"metadata", "name"});
  const Result<json> stored = tools_.client.Get(kube::kNetworkPolicies, job_.ns, name);
  const bool gone = !stored.ok() && stored.error().kind == ErrorKind::kNotFound;
  if (gone) {
    if (!Post(kube::kNetworkPolicies, manifest)) return false;
  } else if (!stored.ok()) {
    NoteError(stored.error(), false);
    return false;
  } else {
    if (!IsOwn(kube::kNetworkPolicies, name, *stored)) return false;
    const json* spec = kube::Find(*stored, {"spec"});
    if (spec != nullptr && *spec == manifest["spec"]) return true;
    const json patch{
        {"metadata",
         {{"resourceVersion", kube::GetString(*stored, {"metadata", "resourceVersion"})}}},
        {"spec",
         spec == nullptr ? manifest["spec"] : api::MakeMergePatch(*spec, manifest["spec"])}};
    const Result<json> mended = tools_.client.Patch(kube::kNetworkPolicies, job_.ns, name, patch);
    if (!mended.ok()) {
      if (mended.error().kind == ErrorKind::kConflict) {
        NoteAgain();
      } else {
        NoteError(mended.error(), false);
      }
      return false;
    }
  }
  LogWarn("Put a NetworkPolicy right", {{"job", key_}, {"name", name}, {"was_gone", gone}});
  // Of a job that says nothing of its isolation yet this is no news.
  if (!api::IsTrue(job_.status.conditions, api::kNetworkIsolated)) return true;
  Record({{.warning = true,
           .reason = api::kEventPolicyRestored,
           .action = api::kActionCreate,
           .note = "somebody " + std::string(gone ? "deleted" : "changed") + " the NetworkPolicy " +
                   name + " of this job; it is again as the operator made it"}});
  return true;
}

// What is not known, because the API server did not answer, stays as it was.
bool Actor::NoteIsolation(bool isolated) {
  const MutexLock lock(mutex_);
  if (!isolated && !refusal_) return false;
  const bool changed = std::exchange(memory_.isolated, isolated) != isolated;
  memory_.isolation_checked = tools_.clock.Now();
  memory_.not_isolated = isolated ? std::string() : refusal_->message;
  return changed;
}

void Actor::AdmitNodes(const std::vector<std::string>& addresses) {
  const json manifest = LauncherNetworkPolicy(job_, tools_.isolation.operator_ns, addresses);
  const json patch{{"spec", {{"ingress", manifest["spec"]["ingress"]}}}};
  const Result<json> stored = tools_.client.Patch(
      kube::kNetworkPolicies, job_.ns, api::LauncherNetworkPolicyName(job_.name, job_.uid), patch);
  if (!stored.ok() && stored.error().kind == ErrorKind::kNotFound) {
    PostNetworkPolicies(addresses);
  } else if (!stored.ok()) {
    return NoteError(stored.error(), false);
  }
  const MutexLock lock(mutex_);
  memory_.admitted = addresses;
}

void Actor::PostLauncher(int64_t term) {
  const json manifest =
      LauncherPod({.judged = *judged_, .credentials = *credentials_, .revision = revision_}, term);
  if (!MayPost(manifest)) return;
  {
    const MutexLock lock(mutex_);
    memory_.unused_term = 0;
  }
  const Result<json> created = tools_.client.Create(kube::kPods, job_.ns, manifest);
  if (created.ok()) {
    const MutexLock lock(mutex_);
    launcher_uid_ = kube::GetString(*created, {"metadata", "uid"});
    return NoteWrite(kube::kPods, *created);
  }
  if (created.error().kind == ErrorKind::kAlreadyExists) {
    (void)JudgeExisting(kube::kPods, api::LauncherPodName(job_.name, term));
    return;
  }
  if (CertainlyNotCreated(created.error())) {
    const MutexLock lock(mutex_);
    memory_.unused_term = term;
  }
  NotePodRefused(created.error(), manifest);
}

void Actor::PostWorker(const json& common, int index) {
  // A quota or policy that refused one worker refuses the others too; the next try will tell.
  if (!CleanSoFar()) return;
  const json manifest = WorkerPod(common, job_.name, index);
  if (MayPost(manifest)) (void)Post(kube::kPods, manifest);
}

bool Actor::MayPost(const json& pod) {
  const std::vector<Violation> found = CheckPod(pod, rules_);
  if (!found.empty()) NoteRefusal(JudgedRefusal(found, tools_.clock.Now()));
  return found.empty();
}

std::optional<json> Actor::Post(const kube::Resource& resource, const json& manifest) {
  Result<json> created = tools_.client.Create(resource, job_.ns, manifest);
  if (created.ok()) {
    NoteWrite(resource, *created);
    return *std::move(created);
  }
  if (created.error().kind == ErrorKind::kAlreadyExists) {
    return JudgeExisting(resource, kube::GetString(manifest, {"metadata", "name"}));
  }
  if (resource == kube::kPods) {
    NotePodRefused(created.error(), manifest);
  } else {
    NoteError(created.error(), false);
  }
  return std::nullopt;
}

std::optional<json> Actor::JudgeExisting(const kube::Resource& resource, const std::string& name) {
  Result<json> stored = tools_.client.Get(resource, job_.ns, name);
  if (!stored.ok()) {
    if (stored.error().kind == ErrorKind::kNotFound) {
      NoteAgain();
    } else {
      NoteError(stored.error(), false);
    }
    return std::nullopt;
  }
  if (!IsOwn(resource, name, *stored)) return std::nullopt;
  NoteWrite(resource, *stored);
  return *std::move(stored);
}

bool Actor::IsOwn(const kube::Resource& resource, const std::string& name, const json& stored) {
  const auto meta = kube::ReadObjectMeta(stored);
  const bool deleting = kube::Find(stored, {"metadata", "deletionTimestamp"}) != nullptr;
  const bool own = meta.ok() && meta->owner_uid == job_.uid;
  if (own && !deleting) return true;
  // Some names have the job's UID in them: no earlier job made one of that name.
  const bool of_one_job =
      resource == kube::kControllerRevisions || resource == kube::kNetworkPolicies;
  const bool leftover = own || (!of_one_job && meta.ok() && meta->owner_kind == api::kKind &&
                                meta->owner_name == job_.name);
  const std::string what = std::string(resource.kind) + " " + name;
  if (leftover && resource == kube::kPods) {
    const MutexLock lock(mutex_);
    memory_.taken_names.insert(name);
    again_ = true;
  } else if (leftover) {
    Refusal refusal = MakeRefusal(api::kReasonCreating,
                                  "waiting until the " + what +
                                      (own ? ", which is being deleted, is gone"
                                           : " of an earlier job of this name is removed"),
                                  0, tools_.clock.Now());
    refusal.retry_at = tools_.clock.Now() + std::chrono::milliseconds(200);
    NoteRefusal(std::move(refusal));
  } else {
    NoteRefusal(MakeRefusal(api::kReasonNameConflict,
                            "the " + what +
                                " exists and does not belong to this job; delete or rename it, or "
                                "re-create the job under another name",
                            failures_before_, tools_.clock.Now()));
  }
  return false;
}

Result<void> Actor::DeletePod(const PodDelete& pod) {
  const auto deleted = tools_.client.Delete(
      kube::kPods, job_.ns, pod.name, {.uid = pod.uid, .resource_version = pod.resource_version});
  if (deleted.ok()) {
    tools_.freshness.Wrote(key_, kube::kPods, *deleted);
    return {};
  }
  if (deleted.error().kind == ErrorKind::kNotFound) return {};
  return deleted.error();
}

void Actor::Delete(const std::vector<PodDelete>& pods) {
  std::vector<std::function<void()>> requests;
  for (const PodDelete& pod : pods) {
    requests.emplace_back([this, &pod] {
      const Result<void> deleted = DeletePod(pod);
      // Another object of that name: what was to be deleted is gone.
      if (deleted.ok() || deleted.error().kind == ErrorKind::kConflict) return;
      NoteError(deleted.error(), false);
    });
  }
  RunAll(std::move(requests));
}

// Foreground: while anything of the job is left, so is the job, and its name with it.
void Actor::DeleteJob() {
  const auto deleted = tools_.client.Delete(
      kube::kTrainingJobs, job_.ns, job_.name,
      {.uid = job_.uid, .resource_version = job_.resource_version}, kube::Propagation::kForeground);
  if (deleted.ok()) {
    LogInfo("Deleted a job whose time to live is over", {{"job", key_}});
    return tools_.freshness.Wrote(key_, kube::kTrainingJobs, *deleted);
  }
  if (deleted.error().kind == ErrorKind::kNotFound) return;
  if (deleted.error().kind == ErrorKind::kConflict) return NoteAgain();
  const MutexLock lock(mutex_);
  if (!error_) error_ = deleted.error();
}

void Actor::Record(const std::vector<PlannedEvent>& events) {
  for (const PlannedEvent& event : events) tools_.events.Record(EventOn(job_, event));
}

void Actor::NoteWrite(const kube::Resource& resource, const json& stored) {
  tools_.freshness.Wrote(key_, resource, kube::GetString(stored, {"metadata", "resourceVersion"}));
}

void Actor::NoteError(const Error& error, bool of_pod) {
  if (!IsTransient(error)) {
    return NoteRefusal(RefusalOf(error, of_pod, failures_before_, tools_.clock.Now()));
  }
  const MutexLock lock(mutex_);
  if (!error_) error_ = error;
}

void Actor::NotePodRefused(Error error, const json& pod) {
  if (error.kind == ErrorKind::kInvalid) {
    error.message = InWordsOfTheJob(error.message, pod, job_.spec);
  }
  NoteError(error, true);
}

void Actor::NoteRefusal(Refusal refusal) {
  const MutexLock lock(mutex_);
  // What the user has to correct comes first: waiting does not help it.
  if (!refusal_ || (refusal.user_error && !refusal_->user_error)) refusal_ = std::move(refusal);
}

void Actor::NoteAgain() {
  const MutexLock lock(mutex_);
  again_ = true;
}

bool Actor::CleanSoFar() {
  const MutexLock lock(mutex_);
  return !refusal_ && !error_ && !again_ && !job_gone_;
}

bool Actor::StatusWritten() {
  const MutexLock lock(mutex_);
  return status_written_;
}

bool Actor::JobGone() {
  const MutexLock lock(mutex_);
  return job_gone_;
}

std::string Actor::UnusableLauncher() {
  const MutexLock lock(mutex_);
  return other_owner_ || other_text_ || refusal_ ? launcher_uid_ : std::string();
}

}  // namespace ringmaster::job
