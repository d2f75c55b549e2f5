#include "operator/job/controller/job_metrics.h"

#include <utility>

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include "common/control/reasons.h"
#include "common/control/verdict.h"
#include "operator/api/names.h"

namespace ringmaster::job {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
using MetricLabels = std::vector<prometheus::ClientMetric::Label>;
using prometheus::MetricFamily;

// Bucket limits in seconds. Jobs may wait in a queue for hours.
const Buckets kStartBuckets{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200};
const Buckets kPhaseBuckets{1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 259200, 604800};
const Buckets kRecoveryBuckets{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300};

prometheus::Histogram& Histogram(prometheus::Registry& registry, const char* name, const char* help,
                                 const Buckets& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

MetricFamily Family(const char* name, const char* help) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = prometheus::MetricType::Gauge;
  return family;
}

void Add(MetricFamily& family, MetricLabels labels, double value) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  metric.gauge.value = value;
}

std::vector<MetricFamily> FamiliesOf(const JobGauges& gauges) {
  MetricFamily jobs = Family("ringmaster_jobs", "TrainingJobs by phase (status.state)");
  MetricFamily requested = Family("ringmaster_gpus_requested",
                                  "GPUs requested by the namespace's unfinished, unsuspended jobs");
  MetricFamily productive =
      Family("ringmaster_gpus_productive", "GPUs of workers whose ranks are training");
  MetricFamily wait =
      Family("ringmaster_job_longest_wait_seconds",
             "Longest time that a job of the namespace has been waiting to train, by its phase");
  MetricFamily stall =
      Family("ringmaster_job_longest_stall_seconds",
             "Longest time that a running job of the namespace has reported no new step");
  for (const auto& [phase, count] : gauges.by_phase) Add(jobs, {{"phase", phase}}, count);
  for (const auto& [ns, of_namespace] : gauges.by_namespace) {
    Add(requested, {{"job_namespace", ns}}, static_cast<double>(of_namespace.gpus_requested));
    Add(productive, {{"job_namespace", ns}}, of_namespace.gpus_productive);
    for (const auto& [phase, seconds] : of_namespace.longest_wait) {
      Add(wait, {{"job_namespace", ns}, {"phase", phase}}, seconds.count());
    }
    if (of_namespace.longest_stall) {
      Add(stall, {{"job_namespace", ns}}, of_namespace.longest_stall->count());
    }
  }
  return {std::move(jobs), std::move(requested), std::move(productive), std::move(wait),
          std::move(stall)};
}

}  // namespace

JobMetrics::JobMetrics(prometheus::Registry& registry, const Clock& clock, const JobStore& jobs,
                       const Scope& scope)
    : clock_(clock),
      jobs_(jobs),
      scope_(scope),
      submit_to_running_(Histogram(
          registry, "ringmaster_job_submit_to_running_seconds",
          "Time from a job's creation until its ranks first trained, including initial suspension",
          kStartBuckets)),
      recovery_(Histogram(
          registry, "ringmaster_job_recovery_seconds",
          "Time from the last sign of life of a lost worker or rank to the first step without it",
          kRecoveryBuckets)),
      steps_lost_(prometheus::BuildCounter()
                      .Name("ringmaster_job_steps_lost_total")
                      .Help("Steps repeated by recoveries")
                      .Register(registry)
                      .Add({})),
      drain_(Histogram(registry, "ringmaster_job_drain_seconds",
                       "Time from marking a worker for removal until its Pod was deleted",
                       kRecoveryBuckets)) {
  auto& phases = prometheus::BuildHistogram()
                     .Name("ringmaster_job_phase_seconds")
                     .Help("Time that jobs spent in a phase, observed when they left it")
                     .Register(registry);
  for (const std::string& phase : Phases()) {
    const bool terminal = phase == api::kStateSucceeded || phase == api::kStateFailed;
    if (!terminal) phases_[phase] = &phases.Add({{"phase", phase}}, kPhaseBuckets);
  }
  auto& restarts = prometheus::BuildCounter()
                       .Name("ringmaster_job_restarts_total")
                       .Help("Workers, launchers and ranks that were restarted after a failure")
                       .Register(registry);
  for (const Restart& restart : Restarts()) {
    restarts_[restart] = &restarts.Add({{"role", restart.role}, {"cause", restart.cause}});
  }
  auto& recoveries = prometheus::BuildCounter()
                         .Name("ringmaster_job_recoveries_total")
                         .Help("Recoveries after a loss, by how it was detected")
                         .Register(registry);
  for (const std::string& cause : RecoveryCauses()) {
    recoveries_[cause] = &recoveries.Add({{"cause", cause}});
  }
  auto& ended = prometheus::BuildCounter()
                    .Name("ringmaster_jobs_ended_total")
                    .Help("Finished jobs, by result and reason")
                    .Register(registry);
  for (const std::string& reason : EndReasons()) {
    const bool success =
        reason == api::kReasonCompleted || reason == control::kReasonAlreadyComplete;
    const char* result = success ? api::kSucceeded : api::kFailed;
    ended_[reason] = &ended.Add({{"result", result}, {"reason", reason}});
  }
}

void JobMetrics::OnChange(const JobChange& change) {
  if (change.submit_to_running) submit_to_running_.Observe(change.submit_to_running->count());
  if (change.phase_left) {
    const auto phase = phases_.find(change.phase_left->phase);
    if (phase != phases_.end()) phase->second->Observe(change.phase_left->lasted.count());
  }
  for (const Restart& restart : change.restarts) restarts_.at(restart)->Increment();
  if (change.recovery) {
    const api::Recovery& recovery = *change.recovery;
    recoveries_.at(Bounded(recovery.cause, RecoveryCauses()))->Increment();
    const FloatSeconds took =
        std::chrono::milliseconds(recovery.detected_millis + recovery.resumed_millis);
    recovery_.Observe(took.count());
    if (recovery.steps_lost > 0) steps_lost_.Increment(static_cast<double>(recovery.steps_lost));
  }
  if (change.end) ended_.at(change.end->reason)->Increment();
}

void JobMetrics::OnDrained(FloatSeconds took) { drain_.Observe(took.count()); }

void JobMetrics::Collect(bool leading, std::vector<MetricFamily>& families) {
  if (!leading) return;
  Jobs jobs = jobs_.List();
  std::erase_if(jobs, [this](const auto& job) { return !IsOurs(*job, nullptr, scope_); });
  JobGauges gauges;
  {
    const MutexLock lock(mutex_);
    stalls_.See(jobs, clock_.Now());
    gauges = CountJobs(jobs, stalls_, clock_.Now(), clock_.WallNow());
  }
  for (MetricFamily& family : FamiliesOf(gauges)) families.push_back(std::move(family));
}

}  // namespace ringmaster::job
