#include "operator/job/policy/change_policy.h"

#include <string>
#include <utility>

#include "operator/api/conditions.h"
#include "operator/api/names.h"

namespace ringmaster::job {

void DescribeChange(const std::vector<std::string>& changed, const api::TrainingJob& job,
                    Clock::WallTime now, Plan& plan) {
  std::vector<api::Condition>& conditions = plan.status.conditions;
  const bool ended = api::IsTerminal(plan.status);
  const bool refused = !changed.empty() && !ended;
  if (!refused && api::FindCondition(conditions, api::kChangeRefused) == nullptr) return;
  std::string message = ended ? "the job has ended" : "the job's spec is the one its Pods get";
  const char* reason = ended ? api::kReasonFinished : api::kReasonSpecInUse;
  if (refused) {
    std::string fields;
    for (const std::string& field : changed) fields += (fields.empty() ? "" : ", ") + field;
    reason = api::kReasonChangedWhileRunning;
    message =
        "the job goes on with the spec that it was started with, because all its Pods are "
        "made from one; changed since: " +
        fields +
        ". Set spec.runPolicy.suspend to true, wait for the condition Suspended and set it to "
        "false to run with the changed spec, or change it back";
  }
  const bool known = api::IsTrue(conditions, api::kChangeRefused);
  api::SetCondition(conditions,
                    {.type = api::kChangeRefused,
                     .status = refused ? api::ConditionStatus::kTrue : api::ConditionStatus::kFalse,
                     .reason = reason,
                     .message = message,
                     .last_transition_time = "",
                     .observed_generation = job.generation},
                    FormatTime(now));
  if (refused && !known) {
    plan.Tell(true, api::kEventChangeRefused, api::kActionWait, std::move(message));
  }
}

}  // namespace ringmaster::job
