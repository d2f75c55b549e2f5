#include "operator/job/policy/status_policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <string_view>

#include "common/base/count_text.h"
#include "common/control/launch_spec.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/model/reports.h"
#include "operator/job/policy/resizing_policy.h"

namespace ringmaster::job {

namespace {

using api::Condition;
using api::ConditionStatus;

// One JSON number for people; six digits are more than a loss is worth.
std::string ShortNumber(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

Condition DescribeRunning(const control::LauncherStatus& answer, int members, bool had_world) {
  using Phase = control::LauncherPhase;
  Condition running{.type = api::kRunning,
                    .status = ConditionStatus::kFalse,
                    .reason = api::kReasonStarting,
                    .message = answer.message.empty() ? "no ranks run yet" : answer.message};
  if (answer.phase == Phase::kRunning && answer.world_size > 0) {
    running.status = ConditionStatus::kTrue;
    running.reason = api::kReasonTraining;
    running.message =
        CountText(answer.world_size, "rank") + " on " + CountText(members, "worker") + " train";
  } else if (had_world && (answer.phase == Phase::kForming || answer.phase == Phase::kAdopting)) {
    running.status = ConditionStatus::kTrue;
    running.reason = api::kReasonStopping;
    if (answer.message.empty()) running.message = "ranks go on in a world that is being formed";
  } else if (answer.phase == Phase::kPaused && !answer.pause_reason.empty()) {
    running.reason = answer.pause_reason;
    if (answer.message.empty()) running.message = "ranks wait and keep their state";
  } else if (answer.phase == Phase::kStopping) {
    running.reason = api::kReasonStopping;
    if (answer.message.empty()) running.message = "the world of ranks is being formed anew";
  } else if (answer.phase == Phase::kFinished) {
    running.reason = api::kReasonFinished;
    running.message = "the launcher has finished";
  }
  return running;
}

api::JobProgress DescribeProgress(const control::Progress& progress, double steps_per_second,
                                  Clock::WallTime wall_now) {
  api::JobProgress out{.step = progress.step,
                       .total_steps = progress.total_steps,
                       .percent = std::nullopt,
                       .samples_per_second = 0,
                       .loss = std::isfinite(progress.loss) ? ShortNumber(progress.loss) : "NaN",
                       .accuracy = progress.accuracy >= 0 ? ShortNumber(progress.accuracy) : "",
                       .estimated_completion_time = ""};
  if (progress.samples_per_second >= 0 && progress.samples_per_second < 1e15) {
    out.samples_per_second = std::llround(progress.samples_per_second);
  }
  if (progress.total_steps <= 0) return out;
  const int64_t done = std::clamp<int64_t>(progress.step, 0, progress.total_steps);
  out.percent = PercentDone(done, progress.total_steps);
  if (steps_per_second > 0 && done < progress.total_steps) {
    const double seconds = static_cast<double>(progress.total_steps - done) / steps_per_second;
    if (seconds < 1e9) {
      out.estimated_completion_time =
          FormatTime(wall_now + std::chrono::seconds(std::llround(seconds)));
    }
  }
  return out;
}

int64_t RoundMillis(double millis) {
  return std::isfinite(millis) ? std::llround(std::clamp(millis, 0.0, 1e12)) : 0;
}

bool SameRank(const api::Straggler& a, const api::Straggler& b) {
  return a.pod_uid == b.pod_uid && a.rank == b.rank;
}

// One that was known keeps its time: a launcher counts seconds, of which every answer has others.
std::vector<api::Straggler> DescribeStragglers(const PlanInput& input,
                                               const control::LauncherStatus& answer) {
  const std::vector<api::Straggler>& known = input.job.status.stragglers;
  std::vector<api::Straggler> stragglers;
  for (const control::Straggler& said : answer.stragglers) {
    if (stragglers.size() == control::kMaxStragglers) break;
    const auto age = std::chrono::seconds(std::clamp<int64_t>(said.for_seconds, 0, 1'000'000'000));
    api::Straggler straggler{.worker = said.pod,
                             .pod_uid = said.pod_uid,
                             .node = said.node,
                             .rank = said.rank,
                             .step_millis = RoundMillis(said.step_millis),
                             .median_millis = RoundMillis(said.median_millis),
                             .since = FormatTime(input.wall_now - age)};
    const auto old = std::find_if(known.begin(), known.end(), [&](const api::Straggler& one) {
      return SameRank(one, straggler);
    });
    if (old != known.end()) straggler.since = old->since;
    stragglers.push_back(std::move(straggler));
  }
  return stragglers;
}

void DescribeAnswer(const PlanInput& input, const control::LauncherStatus& answer,
                    api::TrainingJobStatus& status, const std::string& now) {
  const bool had_world = answer.epoch.number > 0 || input.job.status.epoch > 0;
  // A launcher without a world says nothing about the one that its predecessor formed.
  if (answer.epoch.number > 0) status.epoch = answer.epoch.number;
  status.world_size = answer.world_size;
  status.stragglers = DescribeStragglers(input, answer);
  Condition running = DescribeRunning(answer, status.workers.members, had_world);
  running.observed_generation = input.job.generation;
  api::SetCondition(status.conditions, std::move(running), now);
}

// The one with which most is at stake. REQUIRES: there is one.
const control::ProtectionFault& WorstOf(const std::vector<control::ProtectionFault>& faults) {
  for (const char* what : {"restore", "checkpoint", "copy"}) {
    const auto found = std::find_if(faults.begin(), faults.end(),
                                    [&](const auto& fault) { return fault.what == what; });
    if (found != faults.end()) return *found;
  }
  return faults.front();
}

// What is not kept at present. Nothing to say of a job that always could keep what it wants to.
void DescribeProtection(const PlanInput& input, const control::LauncherStatus& answer,
                        api::TrainingJobStatus& status, const std::string& now) {
  const bool known = api::FindCondition(status.conditions, api::kProtected) != nullptr;
  if (answer.unprotected.empty() && !known) return;
  Condition condition{.type = api::kProtected,
                      .status = ConditionStatus::kTrue,
                      .reason = api::kReasonKept,
                      .message = "the training's state is kept again",
                      .observed_generation = input.job.generation};
  if (!answer.unprotected.empty()) {
    const control::ProtectionFault& fault = WorstOf(answer.unprotected);
    condition.status = ConditionStatus::kFalse;
    if (fault.what == "restore") {
      condition.reason = api::kReasonCheckpointUnreadable;
      condition.message =
          "training waits for its kept state, which cannot be read or written now: it is tried "
          "again, and nothing is given up for it; ";
    } else if (fault.what == "checkpoint") {
      condition.reason = api::kReasonCheckpointFailing;
      condition.message =
          "training goes on, but no new checkpoints are complete, so a loss of all workers goes "
          "back to the last one; ";
    } else if (fault.what == "copy") {
      condition.reason = api::kReasonCopyFailing;
      condition.message =
          "training goes on, but no other worker holds a copy of a rank's share of the state, so "
          "its loss goes back to the last checkpoint; ";
    } else {
      condition.reason = api::kReasonSnapshotFailing;
      condition.message =
          "training goes on, but if all ranks end at once it goes back to the last checkpoint; ";
    }
    condition.message += fault.pod + ": " + fault.message;
  }
  api::SetCondition(status.conditions, std::move(condition), now);
}

void DescribeBeginning(const PlanInput& input, const std::optional<control::Beginning>& beginning,
                       api::TrainingJobStatus& status, const std::string& now) {
  if (!beginning) return;
  const bool restored = beginning->step > 0;
  api::SetCondition(status.conditions,
                    {.type = api::kRestored,
                     .status = restored ? ConditionStatus::kTrue : ConditionStatus::kFalse,
                     .reason = restored ? api::kReasonFromCheckpoint : api::kReasonStartedAfresh,
                     .message = beginning->message,
                     .observed_generation = input.job.generation},
                    now);
}

void NoteFirstStep(const PlanInput& input, const control::LauncherStatus& answer,
                   api::TrainingJobStatus& status, const std::string& now) {
  const bool managed = control::IsManagedTrainer(input.job.spec.command);
  const int64_t begin = answer.beginning ? answer.beginning->step : 0;
  const bool stepped = managed ? answer.progress && answer.progress->step > begin
                               : api::IsTrue(status.conditions, api::kRunning);
  if (stepped && status.first_step_time.empty()) status.first_step_time = now;
}

void DescribeIsolation(const PlanInput& input, api::TrainingJobStatus& status,
                       const std::string& now) {
  Condition condition{.type = api::kNetworkIsolated,
                      .status = ConditionStatus::kFalse,
                      .observed_generation = input.job.generation};
  if (!input.network_policies) {
    condition.reason = api::kReasonPoliciesOff;
    condition.message =
        "the operator makes no NetworkPolicies (--job-network-policies=false); keys, tokens and "
        "TLS alone protect the job's connections";
  } else if (input.job.spec.host_network) {
    condition.reason = api::kReasonHostNetwork;
    condition.message =
        "workers use their nodes' network, where no NetworkPolicy reaches them; the launcher "
        "admits those nodes, and keys, tokens and TLS protect the job's connections";
  } else if (input.memory.isolated) {
    condition.status = ConditionStatus::kTrue;
    condition.reason = api::kReasonPoliciesCreated;
    condition.message =
        "only the job's own Pods and the operator may connect to its Pods, where the cluster's "
        "network plugin enforces NetworkPolicies";
  } else if (!input.memory.not_isolated.empty()) {
    condition.reason = api::kReasonPoliciesMissing;
    condition.message = "who may connect to the job's Pods is not limited as it should be: " +
                        input.memory.not_isolated;
  } else {
    return;
  }
  api::SetCondition(status.conditions, std::move(condition), now);
}

void DescribeLoss(const PlanInput& input, api::TrainingJobStatus& status, const std::string& now) {
  status.world_size = 0;
  status.stragglers.clear();
  api::SetCondition(status.conditions,
                    {.type = api::kRunning,
                     .status = ConditionStatus::kFalse,
                     .reason = api::kReasonStarting,
                     .message = "no launcher runs yet",
                     .observed_generation = input.job.generation},
                    now);
}

// Workers on their way out are not counted as ready: others are to be.
void CountWorkers(const Observed& observed, const control::LauncherStatus& answer,
                  api::WorkerCounts& workers) {
  std::set<std::string_view> leaving;
  for (const PodPtr& pod : observed.live) {
    if (!pod->leaving.empty()) leaving.insert(pod->uid);
  }
  workers.ready = workers.members = 0;
  for (const control::WorkerReport& worker : answer.workers) {
    workers.ready += worker.ready && !leaving.contains(worker.pod_uid) ? 1 : 0;
    workers.members += worker.member ? 1 : 0;
  }
  workers.ready = std::min(workers.ready, workers.desired);
}

// Of a job that has ended: what its conditions said of the present is over, what they said of the
// past stays.
void SettleConditions(const PlanInput& input, api::TrainingJobStatus& status,
                      const std::string& now) {
  const auto end = [&](const char* type, std::string message) {
    api::SetCondition(status.conditions,
                      {.type = type,
                       .status = ConditionStatus::kFalse,
                       .reason = api::kReasonFinished,
                       .message = std::move(message),
                       .observed_generation = input.job.generation},
                      now);
  };
  for (const char* type : {api::kReady, api::kRunning}) end(type, "the job has ended");
  for (const char* type : {api::kResizing, api::kSuspended}) {
    if (api::FindCondition(status.conditions, type) != nullptr) end(type, "the job has ended");
  }
  const Condition* created = api::FindCondition(status.conditions, api::kCreated);
  if (created != nullptr && created->status != ConditionStatus::kTrue) {
    end(api::kCreated, "the job ended before all of its Pods existed");
  } else if (created != nullptr) {
    Condition was = *created;
    was.message = "all of its Pods were created";
    api::SetCondition(status.conditions, std::move(was), now);
  }
  const Condition* kept = api::FindCondition(status.conditions, api::kProtected);
  if (kept != nullptr && kept->status == ConditionStatus::kFalse) {
    Condition last = *kept;
    last.message = "the job has ended; until then it said: " + last.message;
    api::SetCondition(status.conditions, std::move(last), now);
  }
}

// The reason of the condition that says most about `status.state`.
std::string ReasonOfState(const api::TrainingJobStatus& status) {
  const auto find = [&](const char* type) { return api::FindCondition(status.conditions, type); };
  for (const char* type : {api::kFailed, api::kSucceeded, api::kSuspended}) {
    if (api::IsTrue(status.conditions, type)) return find(type)->reason;
  }
  const Condition* resizing = find(api::kResizing);
  const Condition* running = find(api::kRunning);
  const Condition* ready = find(api::kReady);
  const bool runs = running != nullptr && running->status == ConditionStatus::kTrue;
  if (runs && resizing != nullptr && resizing->status == ConditionStatus::kTrue) {
    return resizing->reason;
  }
  const bool waits = ready != nullptr && ready->status != ConditionStatus::kTrue;
  if (!runs && waits && status.state != api::kStatePaused) return ready->reason;
  return running == nullptr ? "" : running->reason;
}

std::string StateOf(const PlanInput& input, const api::TrainingJobStatus& status) {
  const Condition* running = api::FindCondition(status.conditions, api::kRunning);
  if (running != nullptr && running->status == ConditionStatus::kTrue) return api::kStateRunning;
  if (running != nullptr && (running->reason == control::kPauseNoQuorum ||
                             running->reason == control::kPauseBelowMinReplicas)) {
    return api::kStatePaused;
  }
  const PodPtr& launcher = input.observed.launcher;
  const bool started = launcher != nullptr && launcher->phase == PodPhase::kRunning;
  return started ? api::kStateStarting : api::kStatePending;
}

// The time moves only with the step: it is computed from an age.
void DescribeCheckpoint(const std::optional<control::CheckpointReport>& newest, Clock::WallTime now,
                        api::TrainingJobStatus& status) {
  if (!newest || (status.checkpoint && status.checkpoint->step == newest->step)) return;
  status.checkpoint = {.step = newest->step,
                       .time = FormatTime(now - std::chrono::milliseconds(newest->age_millis)),
                       .bytes = newest->bytes};
}

}  // namespace

int PercentDone(int64_t done, int64_t total) {
  return static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total));
}

bool SameStragglers(const api::TrainingJobStatus& a, const api::TrainingJobStatus& b) {
  return std::equal(a.stragglers.begin(), a.stragglers.end(), b.stragglers.begin(),
                    b.stragglers.end(), SameRank);
}

void DescribeKept(const PlanInput& input, const control::LauncherStatus& answer,
                  api::TrainingJobStatus& status) {
  if (answer.progress) {
    status.progress =
        DescribeProgress(*answer.progress, input.launcher->steps_per_second, input.wall_now);
  }
  DescribeCheckpoint(answer.checkpoint, input.wall_now, status);
}

void DescribeCounts(const PlanInput& input, api::TrainingJobStatus& status) {
  status.observed_generation = input.job.generation;
  status.selector = api::WorkerSelector(input.job.uid);
  if (input.observed.launcher_service != nullptr && !input.installation.empty()) {
    status.installation = input.installation;
  }
  status.workers.desired = input.job.spec.worker.replicas;
  status.workers.replicas = static_cast<int>(input.observed.live.size());
}

void DescribeLive(const PlanInput& input, const PodsOutlook& outlook,
                  api::TrainingJobStatus& status) {
  const std::string now = FormatTime(input.wall_now);
  DescribeCounts(input, status);
  const control::LauncherStatus* answer = outlook.launcher_lost ? nullptr : AnswerOf(input);
  if (outlook.launcher_lost) status.workers.ready = status.workers.members = 0;
  if (answer != nullptr) CountWorkers(input.observed, *answer, status.workers);
  if (!api::IsTrue(status.conditions, api::kCreated)) {
    api::SetCondition(
        status.conditions,
        {.type = api::kCreated,
         .status = outlook.complete ? ConditionStatus::kTrue : ConditionStatus::kFalse,
         .reason = outlook.complete ? api::kReasonCreated : api::kReasonCreating,
         .message = outlook.complete
                        ? "the launcher's Pod and " +
                              CountText(status.workers.desired, "worker Pod") + " exist"
                        : "Pods are being created",
         .observed_generation = input.job.generation},
        now);
  }
  DescribeIsolation(input, status, now);
  if (auto ready = DescribeReady(input, outlook, status)) {
    ready->observed_generation = input.job.generation;
    api::SetCondition(status.conditions, *std::move(ready), now);
  }
  if (answer != nullptr) {
    DescribeAnswer(input, *answer, status, now);
    DescribeResizing(input, outlook, *answer, status);
    DescribeKept(input, *answer, status);
    DescribeProtection(input, *answer, status, now);
    DescribeBeginning(input, answer->beginning, status, now);
    NoteFirstStep(input, *answer, status, now);
  } else if (outlook.launcher_lost) {
    DescribeLoss(input, status, now);
  }
  status.state = StateOf(input, status);
  status.reason = ReasonOfState(status);
}

void DescribeOutcome(const PlanInput& input, const Outcome& outcome,
                     api::TrainingJobStatus& status) {
  const std::string now = FormatTime(input.wall_now);
  DescribeCounts(input, status);
  status.completion_time = now;
  status.workers.ready = status.workers.members = 0;
  status.stragglers.clear();
  SettleConditions(input, status, now);
  api::SetCondition(status.conditions,
                    {.type = outcome.succeeded ? api::kSucceeded : api::kFailed,
                     .status = ConditionStatus::kTrue,
                     .reason = outcome.reason,
                     .message = outcome.message,
                     .observed_generation = input.job.generation},
                    now);
  status.state = outcome.succeeded ? api::kStateSucceeded : api::kStateFailed;
  status.reason = ReasonOfState(status);
  if (!outcome.verdict) return;
  DescribeBeginning(input, outcome.verdict->beginning, status, now);
  status.epoch = outcome.verdict->epoch.number;
  status.world_size = outcome.verdict->world_size;
  if (outcome.verdict->progress) {
    status.progress = DescribeProgress(*outcome.verdict->progress, 0, input.wall_now);
  }
  DescribeCheckpoint(outcome.verdict->checkpoint, input.wall_now, status);
}

}  // namespace ringmaster::job
