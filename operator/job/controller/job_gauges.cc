#include "operator/job/controller/job_gauges.h"

#include <algorithm>
#include <optional>

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/admission/gpu_resources.h"

namespace ringmaster::job {

namespace {

// Returns true if the job's ranks can complete steps; false while they form a new world.
bool Trains(const api::TrainingJobStatus& status) {
  const api::Condition* running = api::FindCondition(status.conditions, api::kRunning);
  return running != nullptr && running->status == api::ConditionStatus::kTrue &&
         running->reason == api::kReasonTraining;
}

bool WantsGpus(const api::TrainingJob& job) {
  return !api::IsTerminal(job.status) && job.status.state != api::kStateSuspended;
}

void Count(const api::TrainingJob& job, const std::string& phase, Clock::WallTime wall_now,
           NamespaceGauges& gauges) {
  if (WantsGpus(job)) {
    const int of_worker = GpusPerWorker(job.spec);
    gauges.gpus_requested += int64_t{job.spec.worker.replicas} * of_worker;
    if (Trains(job.status)) gauges.gpus_productive += job.status.workers.members * of_worker;
  }
  if (const auto since = WaitingSince(job)) {
    FloatSeconds& longest = gauges.longest_wait[phase];
    longest = std::max(longest, FloatSeconds(wall_now - *since));
  }
}

}  // namespace

void StallWatch::See(const Jobs& jobs, Clock::Time now) {
  std::map<std::string, Seen> seen;
  for (const auto& job : jobs) {
    const api::TrainingJobStatus& status = job->status;
    if (status.state != api::kStateRunning || !status.progress) continue;
    Seen next{.step = status.progress->step, .epoch = status.epoch, .since = now};
    const auto known = seen_.find(job->uid);
    if (known != seen_.end() && known->second.step == next.step &&
        known->second.epoch == next.epoch) {
      next.since = known->second.since;
    }
    seen.emplace(job->uid, next);
  }
  seen_ = std::move(seen);
}

FloatSeconds StallWatch::StillFor(const std::string& job_uid, Clock::Time now) const {
  const auto found = seen_.find(job_uid);
  return found == seen_.end() ? FloatSeconds(0) : FloatSeconds(now - found->second.since);
}

JobGauges CountJobs(const Jobs& jobs, const StallWatch& stalls, Clock::Time now,
                    Clock::WallTime wall_now) {
  JobGauges gauges;
  for (const std::string& phase : Phases()) gauges.by_phase[phase] = 0;
  for (const auto& job : jobs) {
    const std::string& state = job->status.state;
    const std::string phase = state.empty() ? api::kStatePending : state;
    ++gauges.by_phase[phase];
    NamespaceGauges& of_namespace = gauges.by_namespace[job->ns];
    Count(*job, phase, wall_now, of_namespace);
    if (stalls.Watches(job->uid)) {
      of_namespace.longest_stall = std::max(of_namespace.longest_stall.value_or(FloatSeconds(0)),
                                            stalls.StillFor(job->uid, now));
    }
  }
  return gauges;
}

}  // namespace ringmaster::job
