#pragma once

// Sends the requests of one plan of one job, and collects errors and notes until the actor returns
// them. Every request may be repeated: names are deterministic, an existing object counts only if
// the job owns it, and deletes specify the UID. The actor's parts share one JobRequests, on the
// job's worker thread and, in parallel, on the request pool's threads.

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

// Whether jobs get NetworkPolicies, and where the operator that they admit is.
struct NetworkIsolation {
  bool enabled = false;
  std::string operator_ns{};
};

// What an actor needs from the process; all outlive it.
struct ActorTools {
  const Clock& clock;
  kube::KubeClient& client;
  runtime::FreshnessGate& freshness;
  runtime::RequestPool& pool;
  runtime::EventSink& events;
  NetworkIsolation isolation{};
  std::string installation{};       // ours (ownership.h)
  JobObserver* observer = nullptr;  // null: no listener
  Injection injection{};
};

// The input of an actor; the references outlive it and are not written meanwhile.
struct ActorInput {
  const api::TrainingJob& job;  // has the text of its run (run_pin.h), of the revision `revision`
  std::string revision;
  JobRules rules;  // of its run
  const Observed& observed;
  std::shared_ptr<const Credentials> credentials;  // may be null unless the plan creates anything
  const JobMemory& memory;
};

// A planned event as the recorder takes it, regarding this job.
runtime::Event EventOn(const api::TrainingJob& job, const PlannedEvent& event);

// Thread-safe, but RunAll() is for the job's worker alone. One lock, which is never held across a
// request.
class JobRequests {
 public:
  // `failures_before`: refusals in a row before this plan. The references outlive it.
  JobRequests(const ActorTools& tools, const api::TrainingJob& job, const JobRules& rules,
              int failures_before);

  const ActorTools& tools() const { return tools_; }
  kube::KubeClient& client() const { return tools_.client; }
  const api::TrainingJob& job() const { return job_; }
  const std::string& key() const { return key_; }

  // Runs requests side by side and returns when all have ended, so that what each has left in a
  // place of its own can then be read. What does not get its turn in time is left to the next pass,
  // which plans it again; one that throws is an error of ours, and the job is tried again.
  void RunAll(std::vector<std::function<void()>> requests);

  // The stored object when it is there and ours; otherwise notes why not.
  std::optional<nlohmann::json> Create(const kube::Resource& resource,
                                       const nlohmann::json& manifest);
  std::optional<nlohmann::json> JudgeExisting(const kube::Resource& resource,
                                              const std::string& name);
  // Whether a stored object is this job's and stays; otherwise notes why not.
  bool IsOwn(const kube::Resource& resource, const std::string& name, const nlohmann::json& stored);

  // The job waits until the caches have seen this write.
  void Wrote(const kube::Resource& resource, const nlohmann::json& stored);
  void Record(const PlannedEvent& event);

  // The API server did not do what was asked. Whether that is a refusal, its kind says.
  void NoteError(const Error& error, bool of_pod = false);
  void NoteNotCreated(const kube::Resource& resource, Error error, const nlohmann::json& manifest);
  // An error for the queue's back-off, whatever its kind.
  void NoteBackOff(const Error& error);
  void NoteRefusal(Refusal refusal) RINGMASTER_EXCLUDES(mutex_);
  // Another client's object is in the way: `message` names it and what to do about it.
  void NoteConflict(std::string message);
  void NoteAgain();
  // Anything else: `note` writes it into the ActResult, under the lock.
  template <typename Function>
  void Note(Function note) RINGMASTER_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    note(result_);
  }
  ActResult SoFar() RINGMASTER_EXCLUDES(mutex_);
  // Nothing stood in the way.
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
