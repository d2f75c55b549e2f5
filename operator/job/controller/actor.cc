#include "operator/job/controller/actor.h"

#include <utility>
#include <vector>

#include "common/base/log.h"
#include "operator/job/controller/deletion.h"
#include "operator/job/controller/job_changes.h"

namespace ringmaster::job {

Actor::Actor(const ActorTools& tools, ActorInput input)
    : input_(std::move(input)),
      tools_(tools),
      requests_(tools, input_.job, input_.rules,
                input_.memory.refusal ? input_.memory.refusal->failures : 0),
      status_(requests_, input_.memory.phase_since),
      isolation_(requests_, input_.memory),
      creation_(requests_, status_, isolation_, input_) {}

ActResult Actor::Act(const Plan& plan) {
  if (!EndFirst(plan)) return requests_.SoFar();
  creation_.Prepare(plan);
  if (requests_.CleanSoFar()) isolation_.Keep(plan);
  if ((plan.hold || plan.let_go) && requests_.CleanSoFar()) status_.WriteHold(plan.hold);
  if (requests_.CleanSoFar()) creation_.CreatePods(plan);
  MarkPods(requests_, plan.marks);
  ActResult so_far = requests_.SoFar();
  if (plan.write_status && !so_far.status_written && !so_far.job_gone) {
    status_.WriteStatus(plan);
    so_far = requests_.SoFar();
  }
  if (so_far.job_gone) return so_far;
  if (so_far.status_written || !plan.write_status) FollowStatus(plan);
  const ActResult result = requests_.SoFar();
  if (result.refusal) {
    LogWarn("Failed to apply the plan of a job", {{"job", requests_.key()},
                                                  {"reason", ReasonOf(result.refusal->cause)},
                                                  {"message", result.refusal->message}});
  }
  return result;
}

bool Actor::EndFirst(const Plan& plan) {
  if (plan.end_launcher) {
    // Report a conflict as an error, to back off: the store may be behind for a long time.
    const Result<void> deleted = DeletePod(tools_, input_.job, *plan.end_launcher);
    if (!deleted.ok()) {
      requests_.NoteBackOff(deleted.error().WithContext(
          "ending the launcher " + plan.end_launcher->name + " of job " + requests_.key()));
      return false;
    }
  }
  if (plan.unpin) {  // do this before the job becomes Suspended, because its spec may then change
    const Result<void> removed = DeletePin(requests_, input_.memory.pin->uid);
    if (!removed.ok()) {
      requests_.NoteBackOff(
          removed.error().WithContext("ending the run of job " + requests_.key()));
      return false;
    }
  }
  return true;
}

void Actor::FollowStatus(const Plan& plan) {
  const std::vector<FloatSeconds> drains =
      DrainTimes(plan, input_.memory.leaving_since, tools_.clock.Now());
  DeletePods(requests_, plan.deletes);
  if (tools_.observer != nullptr) {
    for (const FloatSeconds took : drains) tools_.observer->OnDrained(took);
  }
  for (const PlannedEvent& event : plan.events) requests_.Record(event);
  if (plan.delete_job) DeleteJob(requests_);
}

}  // namespace ringmaster::job
