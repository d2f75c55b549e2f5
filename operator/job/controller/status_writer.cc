#include "operator/job/controller/status_writer.h"

#include <nlohmann/json.hpp>

#include "common/base/cut_text.h"
#include "common/base/log.h"
#include "operator/api/codec.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/controller/finalizer.h"
#include "operator/job/controller/job_changes.h"
#include "operator/kube/json_access.h"
#include "operator/kube/object_meta.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

// The limit of a message in the log. The condition contains the whole message.
constexpr std::size_t kLoggedMessageBytes = 512;

void LogRefusal(const std::string& key, const api::Condition& why) {
  LogInfo("Rejected a job", {{"job", key},
                             {"reason", why.reason},
                             {"message", CutText(why.message, kLoggedMessageBytes)}});
}

void LogEnd(const std::string& key, const api::TrainingJobStatus& status) {
  const bool succeeded = api::IsTrue(status.conditions, api::kSucceeded);
  const api::Condition* end =
      api::FindCondition(status.conditions, succeeded ? api::kSucceeded : api::kFailed);
  const std::string message = CutText(end->message, kLoggedMessageBytes);
  if (end->reason == api::kReasonInvalidSpec) return LogRefusal(key, *end);
  LogInfo("Ended a job", {{"job", key},
                          {"result", succeeded ? api::kStateSucceeded : api::kStateFailed},
                          {"reason", end->reason},
                          {"message", message},
                          {"epoch", status.epoch}});
}

// Logs a job's start, end and rejection, one line each.
void LogJobChange(const api::TrainingJob& before, const api::TrainingJobStatus& after) {
  if (api::IsTerminal(before.status)) return;
  if (api::IsTerminal(after)) return LogEnd(before.Key(), after);
  const bool stalled = api::IsTrue(before.status.conditions, api::kStalled);
  if (!stalled && api::IsTrue(after.conditions, api::kStalled)) {
    return LogRefusal(before.Key(), *api::FindCondition(after.conditions, api::kStalled));
  }
  // A suspension resets the epoch, so a resumed job is logged as started again.
  if (before.status.epoch > 0 || !api::IsTrue(after.conditions, api::kRunning)) return;
  LogInfo("Started a job", {{"job", before.Key()},
                            {"workers", after.workers.members},
                            {"ranks", after.world_size},
                            {"launcher_term", after.launcher_term}});
}

}  // namespace

StatusWriter::StatusWriter(JobRequests& requests, std::optional<Clock::WallTime> phase_since)
    : requests_(requests),
      phase_since_(phase_since),
      job_version_(requests.job().resource_version) {}

void StatusWriter::WriteHold(bool held) {
  const Result<FinalizerWrite> written = WriteFinalizer(requests_.client(), requests_.job(), held);
  if (!written.ok()) {
    if (written.error().kind == ErrorKind::kConflict) return requests_.NoteAgain();
    return requests_.NoteError(written.error());
  }
  if (written->after.empty()) {
    return requests_.Note([](ActResult& result) { result.job_gone = true; });
  }
  requests_.tools().freshness.Wrote(requests_.key(), kube::kTrainingJobs, written->after);
  // Keep the old version if another client wrote the job, so that the status write gets a conflict.
  if (written->before == job_version_) job_version_ = written->after;
}

void StatusWriter::WriteStatus(const Plan& plan) {
  if (plan.confirm_claim && !IsStillOurs()) return requests_.NoteAgain();
  const api::TrainingJob& job = requests_.job();
  // Write all fields of the first status: a merge patch would omit fields that are zero.
  const bool first = job.status.observed_generation <= 0;
  const json old = first ? json::object() : api::EncodeStatus(job.status);
  const json patch{{"metadata", {{"resourceVersion", job_version_}}},
                   {"status", kube::MakeMergePatch(old, api::EncodeStatus(plan.status))}};
  const Result<json> stored =
      requests_.client().PatchStatus(kube::kTrainingJobs, job.ns, job.name, patch);
  if (stored.ok()) {
    requests_.Wrote(kube::kTrainingJobs, *stored);
    return NoteWritten(plan.status);
  }
  if (stored.error().kind == ErrorKind::kNotFound) {
    requests_.Note([](ActResult& result) { result.job_gone = true; });
  } else if (stored.error().kind == ErrorKind::kConflict) {
    requests_.NoteAgain();  // the store will show the other client's write
  } else {
    requests_.NoteBackOff(stored.error());
  }
}

bool StatusWriter::IsStillOurs() {
  const api::TrainingJob& job = requests_.job();
  const Result<json> service =
      requests_.client().Get(kube::kServices, job.ns, api::LauncherServiceName(job.name));
  if (!service.ok()) {
    if (service.error().kind == ErrorKind::kNotFound) return true;
    requests_.NoteError(service.error());
    return false;
  }
  const auto meta = kube::ReadObjectMeta(*service);
  if (!meta.ok() || meta->owner_uid != job.uid) return true;
  const std::string& ours = requests_.tools().installation;
  return kube::GetString(*service, {"metadata", "annotations", api::kAnnotationInstallation},
                         ours) == ours;
}

void StatusWriter::NoteWritten(const api::TrainingJobStatus& written) {
  const api::TrainingJob& job = requests_.job();
  LogJobChange(job, written);
  const ActorTools& tools = requests_.tools();
  const Clock::WallTime now = tools.clock.WallNow();
  if (tools.observer != nullptr) {
    tools.observer->OnChange(ObserveChange(job, written, phase_since_, now));
  }
  requests_.Note([&](ActResult& result) {
    result.status_written = tools.clock.Now();
    if (written.state != job.status.state) result.phase_since = now;
  });
}

}  // namespace ringmaster::job
