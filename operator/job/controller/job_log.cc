#include "operator/job/controller/job_log.h"

#include "common/base/cut_text.h"
#include "common/base/log.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"

namespace ringmaster::job {

namespace {

// The condition has all of it.
constexpr std::size_t kLoggedMessageBytes = 512;

void LogEnd(const std::string& key, const api::TrainingJobStatus& status) {
  const bool succeeded = api::IsTrue(status.conditions, api::kSucceeded);
  const api::Condition* end =
      api::FindCondition(status.conditions, succeeded ? api::kSucceeded : api::kFailed);
  const std::string message = CutText(end->message, kLoggedMessageBytes);
  if (end->reason == api::kReasonInvalidSpec) {
    return LogInfo("Refused a job", {{"job", key}, {"reason", end->reason}, {"message", message}});
  }
  LogInfo("Ended a job", {{"job", key},
                          {"result", succeeded ? api::kStateSucceeded : api::kStateFailed},
                          {"reason", end->reason},
                          {"message", message},
                          {"epoch", status.epoch}});
}

}  // namespace

void LogJobChange(const api::TrainingJob& before, const api::TrainingJobStatus& after) {
  if (api::IsTerminal(before.status)) return;
  if (api::IsTerminal(after)) return LogEnd(before.Key(), after);
  // A suspension sets the epoch back: a job that is resumed starts again.
  if (before.status.epoch > 0 || !api::IsTrue(after.conditions, api::kRunning)) return;
  LogInfo("Started a job", {{"job", before.Key()},
                            {"workers", after.workers.members},
                            {"ranks", after.world_size},
                            {"launcher_term", after.launcher_term}});
}

}  // namespace ringmaster::job
