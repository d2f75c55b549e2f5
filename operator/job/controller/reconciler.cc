#include "operator/job/controller/reconciler.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "operator/api/codec.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/admission/judgement.h"
#include "operator/job/controller/act_result.h"
#include "operator/job/controller/actor.h"
#include "operator/job/controller/refusal.h"
#include "operator/job/controller/removal_actor.h"
#include "operator/job/controller/run_pin.h"
#include "operator/job/model/foreign_times.h"
#include "operator/job/planner/make_plan.h"
#include "operator/job/policy/change_policy.h"
#include "operator/job/policy/pod_events.h"
#include "operator/kube/json_access.h"
#include "operator/kube/object_meta.h"
#include "operator/kube/resource.h"

namespace ringmaster::job {

namespace {

void NoteSince(const Plan& plan, Clock::Time now, JobMemory& memory) {
  if (api::IsTerminal(plan.status) && !memory.ended_since) memory.ended_since = now;
  if (!plan.claims) memory.unclaimed_since.reset();
  if (plan.claims && !memory.unclaimed_since) memory.unclaimed_since = now;
  if (plan.suspending == Suspending::kNo) return memory.suspension.reset();
  if (!memory.suspension) {
    memory.suspension.emplace();
    memory.suspension->since = now;
    if (plan.status.progress) memory.suspension->step = plan.status.progress->step;
  }
  if (plan.suspending == Suspending::kEnding && !memory.suspension->ending_since) {
    memory.suspension->ending_since = now;
  }
}

void RecordAnnouncements(const std::string& key, const Plan& plan, JobMemory& memory) {
  memory.announced_nodes = plan.nodes_unreachable;
  memory.announced_drain = plan.drain_held;
  if (!plan.launcher_held.empty() && !memory.announced_launchers) {
    LogWarn("Kept a silent launcher", {{"job", key}, {"reason", plan.launcher_held}});
  }
  memory.announced_launchers = !plan.launcher_held.empty();
}

}  // namespace

Reconciler::Reconciler(ReconcilerParts parts) : parts_(std::move(parts)) {}

Result<runtime::ReconcileResult> Reconciler::Reconcile(const std::string& key) {
  const JobPtr stored = parts_.jobs.Get(key);
  if (stored == nullptr) {
    Forget(key);
    return runtime::ReconcileResult{};
  }
  const ServicePtr service = LauncherServiceOf(*stored);
  const bool left_behind = IsLeftBehind(*stored, service.get(), parts_.scope);
  const bool ours = IsOurs(*stored, service.get(), parts_.scope);
  if (stored->deleting || !ours) {  // Kubernetes deletes the objects of a deleted job
    parts_.launchers.Forget(stored->uid);
    const bool removes = stored->deleting && stored->held && (ours || left_behind);
    return removes ? RemoveCheckpoints(stored, left_behind) : runtime::ReconcileResult{};
  }
  Known& known = KnownOf(*stored);
  const Result<Run> run = RunOf(stored, known);
  if (!run.ok()) return run.error().WithContext("reconciling the TrainingJob " + key);
  const Clock& clock = parts_.tools.clock;
  const JobPtr job = WithoutFutureTimes(run->job, clock.WallNow());
  const Observed observed =
      Observe(*job, {.pods = parts_.pods, .services = parts_.services, .nodes = parts_.nodes},
              run->revision, known.memory.taken_names);
  const Clock::Time now = clock.Now();
  auto credentials = NeedCredentials(*job, observed, known.memory, now);
  if (!credentials.ok()) return credentials.error();
  const std::optional<LauncherView> launcher = parts_.launchers.Latest(job->uid);
  Remember(observed, launcher, now, known.memory);
  JudgeSpec(*run, observed, known, now);
  Plan plan =
      MakePlan({.job = *job,
                .observed = observed,
                .launcher = launcher,
                .memory = known.memory,
                .now = now,
                .wall_now = clock.WallNow(),
                .launchers = launcher && launcher->unheard_since ? parts_.launchers.Heard(job->ns)
                                                                 : LaunchersHeard{},
                .network_policies = parts_.tools.isolation.enabled,
                .installation = parts_.scope.installation,
                .profile = run->ProfileName(),
                .progress_period = ProgressPeriod(parts_.jobs.size()),
                .changed = run->changed});
  plan.write_status = plan.write_status || job != run->job;
  RecordAnnouncements(key, plan, known.memory);
  if (*credentials == nullptr) plan.order.reset();
  NoteSince(plan, now, known.memory);
  TalkToLauncher(*job, observed, plan, *credentials, known.memory);
  const ActResult result = Actor(parts_.tools, {.job = *run->job,
                                                .revision = run->revision,
                                                .rules = run->Rules(),
                                                .observed = observed,
                                                .credentials = *credentials,
                                                .memory = known.memory})
                               .Act(plan);
  const auto again = ApplyResult(result, *run->job, plan, clock.Now(), known.memory);
  if (!again.ok()) return again.error().WithContext("reconciling the TrainingJob " + key);
  if (!plan.ask_about) return runtime::ReconcileResult{.requeue_after = *again};
  const auto latest = AskAbout(*job, *plan.ask_about, known.memory.slow_start);
  return runtime::ReconcileResult{.requeue_after = std::min(latest, again->value_or(latest))};
}

Result<runtime::ReconcileResult> Reconciler::RemoveCheckpoints(const JobPtr& stored,
                                                               bool left_behind) {
  Known& known = KnownOf(*stored);
  RemovalMemory& memory = known.memory.removal;
  if (memory.released) return runtime::ReconcileResult{};
  const Clock::Time now = parts_.tools.clock.Now();
  if (!memory.since) memory.since = now;
  Result<Run> run = RunOf(stored, known);
  if (!run.ok()) {
    if (now - *memory.since < kRemovalLimit) {
      return run.error().WithContext("removing the checkpoints of the TrainingJob " +
                                     stored->Key());
    }
    run = Run{.job = stored, .profile = ProfileOf(*stored, stored->spec.profile)};
  }
  const JobRules rules = run->Rules();
  const Judgement judgement = Judge(*run->job, rules);
  const RemovalPlan plan =
      PlanRemoval({.job = *run->job,
                   .violations = judgement.violations,
                   .pods = parts_.pods.ByOwner(stored->ns, stored->uid),
                   .remover = parts_.pods.Get(
                       kube::ObjectKey(stored->ns, api::CleanUpPodName(stored->name, stored->uid))),
                   .memory = memory,
                   .now = now,
                   .left_behind = left_behind});
  RemovalActor actor(parts_.tools, *stored, judgement.allowed, rules, memory);
  const auto again = actor.Act(plan);
  memory = actor.memory();
  if (again.ok()) return runtime::ReconcileResult{.requeue_after = *again};
  return again.error().WithContext("removing the checkpoints of the TrainingJob " + stored->Key());
}

// Lists of events are expensive: the API server has no index and reads all events of the namespace.
// Other users determine their number and size.
std::chrono::milliseconds Reconciler::AskAbout(const api::TrainingJob& job,
                                               const PodQuestion& question, SlowStart& slow) {
  constexpr std::chrono::milliseconds kAtOnce{1};
  const Clock& clock = parts_.tools.clock;
  {
    const MutexLock lock(mutex_);
    const auto wait = turns_.Take(job.ns, job.uid, clock.Now());
    if (wait.count() > 0) return wait;
  }
  const auto events = [&] {
    struct Turn {
      Reconciler& of;
      ~Turn() {
        const MutexLock lock(of.mutex_);
        of.turns_.Done();
      }
    } turn{*this};
    return parts_.tools.client.List(
        kube::kEvents, job.ns,
        {.field_selector = "regarding.uid=" + question.uid, .limit = 20, .max_bytes = 256 << 10});
  }();
  const Clock::Time asked_at = clock.Now();
  if (!events.ok()) {
    LogDebug("Failed to read the events of a Pod",
             {{"job", job.Key()}, {"pod", question.pod}, {"error", events.error().message}});
  }
  std::string warning = events.ok() ? NewestWarning(events->items, question.uid) : std::string();
  EventsRead read = AfterReading(std::move(slow), question, std::move(warning), asked_at);
  slow = std::move(read.slow);
  if (read.news) return kAtOnce;
  return std::chrono::ceil<std::chrono::milliseconds>(slow.ask_again - asked_at);
}

ServicePtr Reconciler::LauncherServiceOf(const api::TrainingJob& job) const {
  ServicePtr service =
      parts_.services.Get(kube::ObjectKey(job.ns, api::LauncherServiceName(job.name)));
  return service != nullptr && service->owner_uid == job.uid ? service : nullptr;
}

Choice Reconciler::ProfileOf(const api::TrainingJob& job, const std::string& wanted) const {
  return ChooseProfile(parts_.profiles.All(), job.ns, wanted, parts_.profiles.operator_ns);
}

void Reconciler::Look(const JobPtr& job, const Choice& profile, Known& known) const {
  if (known.seen == nullptr || known.seen->spec != job->spec ||
      known.seen_under != profile.profile) {
    known.merged = nullptr;
    if (profile.profile != nullptr && !profile.profile->workload.text.empty() &&
        job->spec.texts == api::TrainingJobSpec::Texts::kAll) {
      known.merged = std::make_shared<const api::TrainingJobSpec>(
          api::MergeWorkload(job->spec, profile.profile->workload));
    }
    known.revision =
        RevisionOf(api::EncodeRunSpec(known.merged == nullptr ? job->spec : *known.merged));
  }
  known.seen = job;
  known.seen_under = profile.profile;
}

Result<Reconciler::Run> Reconciler::RunOf(const JobPtr& job, Known& known) {
  Run run{.profile = ProfileOf(*job, job->spec.profile),
          .has_tools = !parts_.tools.injection.image.empty()};
  const auto with_text = [&](api::TrainingJobSpec spec) {
    auto changed = std::make_shared<api::TrainingJob>(*job);
    changed->spec = std::move(spec);
    return changed;
  };
  Look(job, run.profile, known);
  run.job = known.merged == nullptr ? job : with_text(*known.merged);
  run.revision = known.revision;
  std::optional<RunPin>& pin = known.memory.pin;
  if (job->spec.texts == api::TrainingJobSpec::Texts::kNotNeeded) {  // no Pods are created
    run.revision = pin ? pin->revision : std::string();
    return run;
  }
  if (const Result<void> found = FindPin(*job, known); !found.ok()) return found.error();
  if (!pin) {
    if (run.profile.profile != nullptr) run.profile.problem = WhyNoRunBegins(*run.profile.profile);
    return run;
  }
  run.revision = pin->revision;
  const Choice today = run.profile;
  const std::string name = today.profile == nullptr ? "" : today.profile->name;
  if (!pin->profile.empty()) run.profile = ProfileOf(*job, pin->profile);
  // If the namespace now has a default profile, use it, because its limits apply to all jobs.
  if (pin->profile == kRestricted && run.profile.profile == nullptr) {
    run.profile = ProfileOf(*job, "");
  }
  const bool another = !pin->profile.empty() && pin->profile != name;
  if (pin->revision == known.revision) {
    pin->spec = nullptr;
  } else if (!another || today.problem.empty()) {  // otherwise the new profile's fields are unknown
    api::TrainingJobSpec spec = run.job->spec;
    // An upgrade may have changed the operator's default image. This is not a change of the job.
    if (job->has_default_image && pin->has_default_image) spec.image = pin->spec->image;
    run.changed = ChangedFields(*pin->spec, spec);
  }
  if (another) {
    const std::string why = today.problem.empty() ? "" : " (" + today.problem + ")";
    run.changed.insert(run.changed.begin(), "spec.profile" + why);
  }
  const bool same =
      run.changed.empty() && (pin->spec == nullptr || pin->spec->image == run.job->spec.image);
  if (pin->spec != nullptr && !same) {
    run.job = with_text(api::SpecOfRun(*pin->spec, job->spec));
  }
  return run;
}

// Reads the pin if the job seems to have started and this process does not know the pin or its
// content. Without a pin, the next plan creates one.
Result<void> Reconciler::FindPin(const api::TrainingJob& job, Known& known) {
  std::optional<RunPin>& pin = known.memory.pin;
  const auto begun = [&] {
    return job.status.launcher_term > 0 || LauncherServiceOf(job) != nullptr ||
           !parts_.pods.ByOwner(job.ns, job.uid).empty();
  };
  const bool not_read = pin && pin->spec == nullptr && pin->revision != known.revision;
  if (!not_read && (known.memory.pin_sought || !begun())) return {};
  const auto stored = parts_.tools.client.Get(kube::kControllerRevisions, job.ns,
                                              api::RunPinName(job.name, job.uid));
  if (!stored.ok() && stored.error().kind != ErrorKind::kNotFound) return stored.error();
  pin.reset();
  known.memory.pin_sought = true;
  if (!stored.ok()) return {};
  const auto meta = kube::ReadObjectMeta(*stored);
  const bool deleting = kube::Find(*stored, {"metadata", "deletionTimestamp"}) != nullptr;
  if (!meta.ok() || meta->owner_uid != job.uid || deleting) return {};
  if (auto read = ReadRunPin(*stored); read.ok()) pin = *std::move(read);
  return {};
}

void Reconciler::JudgeSpec(const Run& run, const Observed& observed, Known& known,
                           Clock::Time now) const {
  std::optional<Refusal>& refusal = known.memory.refusal;
  if (run.job->spec.texts == api::TrainingJobSpec::Texts::kNotNeeded) {  // no Pod is created
    known.judged.reset();
    known.violations.clear();
    return;
  }
  if (known.judged == nullptr || known.judged->spec != run.job->spec ||
      known.judged_under != run.profile) {
    known.violations = Judge(*run.job, run.Rules()).violations;
    if (refusal && IsJudged(*refusal)) refusal.reset();
  }
  known.judged = run.job;
  known.judged_under = run.profile;
  if (known.violations.empty()) return;
  // The job's objects show whether it has started; the status is not trusted.
  const bool begun = known.memory.pin || observed.launcher_service != nullptr;
  refusal = JudgedRefusal(known.violations, begun, now);
}

Result<std::shared_ptr<const Credentials>> Reconciler::NeedCredentials(const api::TrainingJob& job,
                                                                       const Observed& observed,
                                                                       JobMemory& memory,
                                                                       Clock::Time now) {
  const std::shared_ptr<const Credentials> none;
  if (api::IsTerminal(job.status)) return none;
  const bool refused =
      memory.refusal && memory.refusal->cause == RefusalCause::kCredentialsUnavailable;
  if (refused && now < memory.refusal->retry_at) return none;
  auto found = CredentialsOf(job, observed);
  if (found.ok()) {
    if (refused) memory.refusal.reset();
    return found;
  }
  if (IsTransient(found.error())) return found;
  // Until the retry, the refusal prevents the plan from creating objects. A condition reports it.
  memory.refusal = MakeRefusal(RefusalCause::kCredentialsUnavailable, found.error().message,
                               refused ? memory.refusal->failures : 0, now);
  return none;
}

Result<std::shared_ptr<const Credentials>> Reconciler::CredentialsOf(const api::TrainingJob& job,
                                                                     const Observed& observed) {
  const ServicePtr& service = observed.launcher_service;
  const PodPtr& launcher = observed.launcher;
  std::string seed_id;
  if (service != nullptr) {
    seed_id = service->seed_id;
  } else if (launcher != nullptr) {
    seed_id = launcher->seed_id;  // if the Service was deleted, running Pods keep their keys
  }
  Result<Seed> seed = service == nullptr && seed_id.empty() ? parts_.keyring.Current()
                                                            : parts_.keyring.Find(seed_id);
  if (!seed.ok()) return seed.error();
  return credentials_.Get(*seed, job.name, job.uid);
}

void Reconciler::TalkToLauncher(const api::TrainingJob& job, const Observed& observed,
                                const Plan& plan,
                                const std::shared_ptr<const Credentials>& credentials,
                                JobMemory& memory) {
  // Keep a claim's first value: each later leader of this installation must have a higher term.
  const ServiceView* service = observed.launcher_service.get();
  if (MustClaimService(job, service, parts_.scope.installation)) memory.claim_term = 0;
  if (memory.claim_term == 0) {
    memory.claim_term = TermOfClaim(job, service, parts_.scope.installation);
  }
  if (!plan.order) return parts_.launchers.Forget(job.uid);
  control::Order order = *plan.order;
  order.stamp = {.leader_term = std::max(parts_.leader_term(), memory.claim_term),
                 .generation = job.generation};
  parts_.launchers.Watch({.job_key = job.Key(),
                          .job_uid = job.uid,
                          .pod_uid = observed.launcher->uid,
                          .pod_ip = observed.launcher->ip,
                          .credentials = credentials,
                          .order = std::move(order),
                          .answered_before = job.status.world_size > 0});
}

Reconciler::Known& Reconciler::KnownOf(const api::TrainingJob& job) {
  const MutexLock lock(mutex_);
  std::unique_ptr<Known>& known = known_[job.Key()];
  if (known != nullptr && known->uid != job.uid) {
    ForgetUid(known->uid);
    known = nullptr;
  }
  if (known == nullptr) {
    known = std::make_unique<Known>();
    known->uid = job.uid;
  }
  return *known;
}

void Reconciler::Forget(const std::string& key) {
  const MutexLock lock(mutex_);
  const auto found = known_.find(key);
  if (found == known_.end()) return;
  ForgetUid(found->second->uid);
  known_.erase(found);
}

void Reconciler::ForgetUid(const std::string& uid) {
  parts_.launchers.Forget(uid);
  credentials_.Forget(uid);
}

}  // namespace ringmaster::job
