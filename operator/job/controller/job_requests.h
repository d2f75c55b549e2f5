#pragma once

// Sends the requests of one plan of one job, and collects their errors and results for the actor.
// All requests are idempotent: names are deterministic, an existing object is accepted only if the
// job owns it, and deletes specify the UID. The actor's parts share one JobRequests, on the job's
// worker thread and, in parallel, on the request pool's threads.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/job/admission/job_rules.h"
#include "operator/job/controller/act_result.h"
#include "operator/job/controller/job_changes.h"
#include "operator/job/credentials/credentials.h"
#include "operator/job/manifests/injection.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/plan.h"
#include "operator/kube/kube_client.h"
#include "operator/runtime/event_recorder.h"
#include "operator/runtime/freshness.h"
#include "operator/runtime/request_pool.h"

namespace ringmaster::job {

// Whether jobs get NetworkPolicies, and the namespace of the operator that the policies admit.
struct NetworkIsolation {
  bool enabled = false;
  std::string operator_ns{};
};

// The process-wide dependencies of an actor. All of them must outlive the actor.
struct ActorTools {
  const Clock& clock;
  kube::KubeClient& client;
  runtime::FreshnessGate& freshness;
  runtime::RequestPool& pool;
  runtime::EventSink& events;
  NetworkIsolation isolation{};
  std::string installation{};       // this operator's installation (ownership.h)
  JobObserver* observer = nullptr;  // may be null
  Injection injection{};
};

// The input of an actor. The referenced objects must outlive the actor and must not change.
struct ActorInput {
  const api::TrainingJob& job;  // with the spec of its run, whose revision is `revision`
  std::string revision;
  JobRules rules;  // the rules that apply to the run
  const Observed& observed;
  std::shared_ptr<const Credentials> credentials;  // may be null if the plan creates nothing
  const JobMemory& memory;
};

// Converts a planned event of this job to an event for the recorder.
runtime::Event EventOn(const api::TrainingJob& job, const PlannedEvent& event);

// Thread-safe, except that only the job's worker thread may call RunAll(). The lock is never held
// during a request.
class JobRequests {
 public:
  // `failures_before`: consecutive refusals before this plan. References must outlive this object.
  JobRequests(const ActorTools& tools, const api::TrainingJob& job, const JobRules& rules,
              int failures_before);

  const ActorTools& tools() const { return tools_; }
  kube::KubeClient& client() const { return tools_.client; }
  const api::TrainingJob& job() const { return job_; }
  const std::string& key() const { return key_; }

  // Runs requests in parallel and returns when all have ended. Skips requests that cannot start
  // within the time limit of a reconcile; the next reconcile plans them again. An exception in a
  // request is noted as an internal error, and the job is retried.
  void RunAll(std::vector<std::function<void()>> requests);

  // Returns the stored object if the job owns it; otherwise notes the reason and returns nothing.
  std::optional<nlohmann::json> Create(const kube::Resource& resource,
                                       const nlohmann::json& manifest);
  std::optional<nlohmann::json> JudgeExisting(const kube::Resource& resource,
                                              const std::string& name);
  // Returns true if the job owns a stored object that is not being deleted; else notes the reason.
  bool IsOwn(const kube::Resource& resource, const std::string& name, const nlohmann::json& stored);

  // Records a write. The next reconcile of the job waits until the caches contain it.
  void Wrote(const kube::Resource& resource, const nlohmann::json& stored);
  void Record(const PlannedEvent& event);

  // Records a failed request: a transient error for the back-off, any other error as a refusal.
  void NoteError(const Error& error, bool of_pod = false);
  void NoteNotCreated(const kube::Resource& resource, Error error, const nlohmann::json& manifest);
  // Records an error of any kind for the queue's back-off.
  void NoteBackOff(const Error& error);
  void NoteRefusal(Refusal refusal) RINGMASTER_EXCLUDES(mutex_);
  // Records that an object of another client has a name of the job. `message` says what to do.
  void NoteConflict(std::string message);
  void NoteAgain();
  // Calls `note` with the ActResult while holding the lock.
  template <typename Function>
  void Note(Function note) RINGMASTER_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    note(result_);
  }
  ActResult SoFar() RINGMASTER_EXCLUDES(mutex_);
  // Returns true if there was no refusal and no error so far, and nothing to retry.
  bool CleanSoFar() RINGMASTER_EXCLUDES(mutex_);

 private:
  // Constant after construction.
  const ActorTools& tools_;
  const api::TrainingJob& job_;
  const JobRules& rules_;
  const std::string key_;
  const int failures_before_;
  const Clock::Time began_;

  Mutex mutex_;
  ActResult result_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::job
