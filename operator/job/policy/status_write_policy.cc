#include "operator/job/policy/status_write_policy.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "common/control/reasons.h"
#include "common/control/verdict.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/policy/progress_policy.h"

namespace ringmaster::job {

namespace {

// Returns true for conditions that depend on the launcher's reports.
bool IsReported(const api::Condition& condition) {
  static constexpr std::string_view kTypes[]{api::kWorkersReady, api::kRunning,  api::kResizing,
                                             api::kProtected,    api::kRestored, api::kReconciling};
  return std::ranges::find(kTypes, condition.type) != std::end(kTypes);
}

// Returns true if a Pod's failure is new. The operator observes it, unlike a failure of a rank.
bool NamesLostPod(const std::vector<api::Failure>& failures,
                  const std::vector<api::Failure>& known) {
  return std::ranges::any_of(failures, [&](const api::Failure& failure) {
    const bool of_rank = failure.reason == control::kReasonRankFailed || !failure.start.empty();
    return !of_rank && std::ranges::none_of(known, [&](const api::Failure& have) {
      return have.pod_uid == failure.pod_uid && have.reason == failure.reason;
    });
  });
}

bool ChangesReportsAlone(const api::TrainingJobStatus& old, const api::TrainingJobStatus& status) {
  if (NamesLostPod(status.failures, old.failures)) return false;
  api::TrainingJobStatus rest = status;
  rest.failures = old.failures;
  rest.state = old.state;
  rest.reason = old.reason;
  rest.epoch = old.epoch;
  rest.world_size = old.world_size;
  rest.workers.ready = old.workers.ready;
  rest.workers.members = old.workers.members;
  rest.progress = old.progress;
  rest.checkpoint = old.checkpoint;
  rest.last_recovery = old.last_recovery;
  rest.stragglers = old.stragglers;
  rest.first_step_time = old.first_step_time;
  rest.crashes = old.crashes;
  std::vector<api::Condition> conditions = old.conditions;
  std::erase_if(conditions, IsReported);
  std::erase_if(rest.conditions, IsReported);
  if (conditions != rest.conditions) return false;
  rest.conditions = old.conditions;
  return rest == old;
}

bool ChangesProgressAlone(const api::TrainingJobStatus& old, const api::TrainingJobStatus& status) {
  api::TrainingJobStatus rest = status;
  rest.progress = old.progress;
  if (SameStragglers(rest, old)) rest.stragglers = old.stragglers;
  rest.checkpoint = old.checkpoint;
  return rest == old;
}

void Hold(std::chrono::milliseconds wait, Plan& plan) {
  plan.RequeueWithin(wait);
  std::erase_if(plan.events, [](const PlannedEvent& event) { return event.of_status; });
}

}  // namespace

void DecideStatusWrite(const api::TrainingJobStatus& old, const StatusWrites& earlier,
                       std::chrono::milliseconds period, Clock::Time now, Plan& plan) {
  if (plan.status == old) return;
  const auto& written = earlier.progress;
  if (ChangesProgressAlone(old, plan.status) && written && now - *written < period) {
    return Hold(std::chrono::ceil<std::chrono::milliseconds>(*written + period - now), plan);
  }
  plan.of_reports = ChangesReportsAlone(old, plan.status);
  const auto wait = earlier.reports.Wait(now);
  if (plan.of_reports && wait.count() > 0) return Hold(wait, plan);
  plan.write_status = true;
}

}  // namespace ringmaster::job
