#include "operator/app/release_jobs.h"

#include <cstdlib>
#include <future>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "operator/api/codec.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/http/http_client.h"
#include "operator/job/controller/finalizer.h"
#include "operator/job/model/views.h"
#include "operator/kube/json_access.h"
#include "operator/kube/resource.h"
#include "operator/runtime/leader_elector.h"

namespace ringmaster {
namespace {

constexpr std::chrono::minutes kLeaseLimit{2};
constexpr int kMostPasses = 10;  // later passes retry jobs that another client has changed

api::TrainingJobStatus Released(const api::TrainingJob& job, const Clock& clock) {
  api::TrainingJobStatus status = job.status;
  api::SetCondition(
      status.conditions,
      {.type = api::kManaged,
       .status = api::ConditionStatus::kFalse,
       .reason = api::kReasonUninstalled,
       .message = "the operator of the installation " + job.status.installation +
                  " was uninstalled, so no operator manages this job: training continues, but "
                  "nothing is replaced, scaled, suspended or stopped. Reinstall it in the same "
                  "namespace with the same lease.name, or name another installation in the job's "
                  "annotation ringmaster.dev/installation",
       .last_transition_time = "",
       .observed_generation = job.generation},
      FormatTime(clock.WallNow()));
  return status;
}

bool ToBeDescribed(const api::TrainingJob& job) {
  const api::Condition* managed = api::FindCondition(job.status.conditions, api::kManaged);
  const bool released = managed != nullptr && managed->status == api::ConditionStatus::kFalse;
  return !api::IsTerminal(job.status) && !job.deleting && !released;
}

class JobReleaser {
 public:
  JobReleaser(kube::KubeClient& client, const Clock& clock, const Config& config)
      : client_(client), clock_(clock), config_(config) {}

  // Returns true if all objects have been released.
  Result<bool> Pass() {
    const Result<bool> jobs = ForEach(kube::kTrainingJobs, &JobReleaser::Release);
    if (!jobs.ok()) return jobs.error();
    const Result<bool> shown = ForEach(kube::kLocalTrainingProfiles, &JobReleaser::Remove);
    return shown.ok() ? *jobs && *shown : shown;
  }

  int written() const { return written_; }

 private:
  using Act = Result<bool> (JobReleaser::*)(const nlohmann::json& object);

  Result<bool> ForEach(const kube::Resource& resource, Act act) {
    kube::ListOptions options;
    bool clean = true;
    do {
      Result<kube::ListPage> page = client_.List(resource, config_.watch_namespace, options);
      if (!page.ok() && page.error().reason == http::kTooLong && options.limit > 1) {
        options.limit /= 2;
        continue;
      }
      // If the CRD does not exist any more, neither do its objects.
      if (!page.ok() && page.error().kind == ErrorKind::kNotFound) return true;
      if (!page.ok()) return page.error();
      for (const nlohmann::json& object : page->items) {
        const Result<bool> done = (this->*act)(object);
        if (!done.ok()) return done.error();
        clean = clean && *done;
      }
      options.continue_token = page->continue_token;
      if (options.continue_token.empty()) break;
    } while (true);
    return clean;
  }

  // Deletes this installation's LocalTrainingProfiles. Returns true if there is nothing left to do.
  Result<bool> Remove(const nlohmann::json& object) {
    const auto shown = job::ProjectLocalProfile(object);
    if (!shown.ok() || shown->installation != config_.Installation()) return true;
    const Result<std::string> removed = client_.Delete(
        kube::kLocalTrainingProfiles, kube::GetString(object, {"metadata", "namespace"}),
        shown->name, {.uid = shown->uid});
    if (removed.ok() || removed.error().kind == ErrorKind::kNotFound) return true;
    return removed.error();
  }

  // Returns false if another client changed the job first.
  Result<bool> Release(const nlohmann::json& object) {
    // All jobs must be released, so do not decode the spec, which may have another version.
    const Result<api::TrainingJob> job = api::DecodeWithoutSpec(object);
    if (!job.ok() || job->status.installation != config_.Installation()) return true;
    const Result<bool> described = Describe(*job);
    return described.ok() && *described && job->held ? LetGo(*job) : described;
  }

  // Removes the finalizer: without an operator, the job could never be deleted.
  Result<bool> LetGo(const api::TrainingJob& job) {
    const Result<job::FinalizerWrite> written = job::WriteFinalizer(client_, job, false);
    if (written.ok()) return true;
    if (written.error().kind == ErrorKind::kConflict) return false;
    return written.error();
  }

  Result<bool> Describe(const api::TrainingJob& job) {
    if (!ToBeDescribed(job)) return true;
    const nlohmann::json patch{
        {"metadata", {{"resourceVersion", job.resource_version}}},
        {"status", kube::MakeMergePatch(api::EncodeStatus(job.status),
                                        api::EncodeStatus(Released(job, clock_)))}};
    const auto stored = client_.PatchStatus(kube::kTrainingJobs, job.ns, job.name, patch);
    if (stored.ok()) {
      ++written_;
      return true;
    }
    if (stored.error().kind == ErrorKind::kNotFound) return true;
    if (stored.error().kind == ErrorKind::kConflict) return false;
    return stored.error();
  }

  kube::KubeClient& client_;
  const Clock& clock_;
  const Config& config_;
  int written_ = 0;
};

}  // namespace

Result<int> ReleaseJobs(kube::KubeClient& requests, kube::KubeClient& lease, const Clock& clock,
                        const Config& config) {
  std::promise<void> elected;
  std::future<void> leads = elected.get_future();
  runtime::LeaderElector elector(lease, clock, config.Election(),
                                 {.on_elected = [&](int64_t) { elected.set_value(); },
                                  .on_lost = [](const std::string&) { std::_Exit(1); }});
  elector.Start();
  if (leads.wait_for(kLeaseLimit) != std::future_status::ready) {
    return Error{ErrorKind::kTimeout, "the Lease " + config.Installation() +
                                          " could not be acquired: an operator of this "
                                          "installation may still be running; if not, see the log"};
  }
  JobReleaser releaser(requests, clock, config);
  Result<bool> clean = false;
  for (int pass = 0; pass < kMostPasses && clean.ok() && !*clean; ++pass) clean = releaser.Pass();
  elector.StopAndRelease();
  if (!clean.ok()) return clean.error();
  if (!*clean) return Error{ErrorKind::kConflict, "the jobs keep changing; try again"};
  return releaser.written();
}

}  // namespace ringmaster
