#pragma once

// Carries out one plan of one job: creates and marks in parallel through the shared request pool,
// the status in one write, deletes, events. Every act may be repeated: names are deterministic, an
// object that exists already counts only if it is ours, deletes name the UID. Made by the
// reconciler for one reconcile and thrown away.

#include <array>
#include <chrono>
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
#include "operator/job/admission/judgement.h"
#include "operator/job/admission/namespace_policy.h"
#include "operator/job/controller/job_changes.h"
#include "operator/job/credentials/credentials.h"
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

// Takes note of what was done; job_metrics.h implements it. Called on workers, concurrently.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  virtual void OnChange(const JobChange&) {}
  virtual void OnDrained(FloatSeconds /*took*/) {}
};

// What an actor needs of the process; all outlive it.
struct ActorTools {
  const Clock& clock;
  kube::KubeClient& client;
  runtime::FreshnessGate& freshness;
  runtime::RequestPool& pool;
  runtime::EventSink& events;
  NetworkIsolation isolation{};
  std::string installation{};       // ours (ownership.h)
  JobObserver* observer = nullptr;  // null: nobody listens
};

// A planned event as the recorder takes it, regarding this job.
runtime::Event EventOn(const api::TrainingJob& job, const PlannedEvent& event);

class Actor {
 public:
  // `job` has the text of its run (run_pin.h), of the revision `revision`; `rules` are its
  // namespace's. `credentials` may be null unless the plan creates anything. `memory` is written;
  // the rest is read.
  Actor(const ActorTools& tools, const api::TrainingJob& job, std::string revision,
        NamespaceRules rules, const Observed& observed,
        std::shared_ptr<const Credentials> credentials, JobMemory& memory);

  // When to look at the job again: when the plan says so, where everything was done; sooner or
  // later than that where something was refused, or somebody else changed an object first. An error
  // is for the queue's back-off.
  Result<std::optional<std::chrono::milliseconds>> Act(const Plan& plan);

 private:
  std::optional<std::chrono::milliseconds> Refused() RINGMASTER_REQUIRES(mutex_);
  std::optional<std::chrono::milliseconds> LookAgain() RINGMASTER_REQUIRES(mutex_);

  // Runs requests side by side. What does not get its turn in time is left to the next pass, which
  // plans it anew; one that throws is an error of ours, and the job is tried again.
  void RunAll(std::vector<std::function<void()>> requests);

  // Judges what the plan's Pods are about to be made from; without it, or when it is refused, none
  // is made.
  void JudgeText(const Plan& plan);
  // Term, pin, Secret, Services, and the launcher Pod of a job's first term, at once. Then the
  // other Pods, which carry the term and the launcher Service's address.
  void Prepare(const Plan& plan);
  void CreatePods(const Plan& plan);
  void Mark(const std::vector<PodMark>& pods);
  // Done where it is gone already.
  Result<void> DeletePod(const PodDelete& pod);
  void Delete(const std::vector<PodDelete>& pods);
  void DeleteJob();
  void Record(const std::vector<PlannedEvent>& events);

  // Puts the finalizer on the job, or takes it off.
  void WriteHold(bool held);
  void WriteStatus(const Plan& plan);
  // False where another installation has the job by its launcher's Service, or that is not known.
  bool IsStillOurs();
  void NoteChange(const api::TrainingJobStatus& written);
  void PostSecret();
  void PostPin();
  Result<void> RemovePin();
  void PostService(nlohmann::json manifest, bool launcher);
  void PatchServiceTerm(int64_t term);
  // Both NetworkPolicies, before Pods are made: most jobs have none yet.
  void PostNetworkPolicies(const std::vector<std::string>& addresses);
  // The same of a job that should have them.
  void CheckNetworkPolicies(const std::vector<std::string>& addresses);
  // As made, whoever changed or deleted it. False where it is not, and why is noted.
  bool MendNetworkPolicy(const nlohmann::json& manifest);
  // True where that is news.
  bool NoteIsolation(bool isolated);
  std::array<nlohmann::json, 2> NetworkPolicies(const std::vector<std::string>& addresses) const;
  void AdmitNodes(const std::vector<std::string>& addresses);
  void PostLauncher(int64_t term);
  void PostWorker(const nlohmann::json& common, int index);
  // Notes why not, where the finished manifest has a right that it must not have.
  bool MayPost(const nlohmann::json& pod);

  // The stored object when it is there and ours; otherwise notes why not.
  std::optional<nlohmann::json> Post(const kube::Resource& resource,
                                     const nlohmann::json& manifest);
  std::optional<nlohmann::json> JudgeExisting(const kube::Resource& resource,
                                              const std::string& name);
  // Whether a stored object is this job's and stays; otherwise notes why not.
  bool IsOwn(const kube::Resource& resource, const std::string& name, const nlohmann::json& stored);
  void NoteWrite(const kube::Resource& resource, const nlohmann::json& stored);
  void NoteError(const Error& error, bool of_pod);
  void NotePodRefused(Error error, const nlohmann::json& pod);
  void NoteRefusal(Refusal refusal) RINGMASTER_EXCLUDES(mutex_);
  void NoteAgain() RINGMASTER_EXCLUDES(mutex_);
  bool CleanSoFar() RINGMASTER_EXCLUDES(mutex_);
  bool StatusWritten() RINGMASTER_EXCLUDES(mutex_);
  bool JobGone() RINGMASTER_EXCLUDES(mutex_);
  // The UID of the launcher Pod that this plan created and that cannot be used; else empty.
  std::string UnusableLauncher() RINGMASTER_EXCLUDES(mutex_);

  // Constant after construction.
  const ActorTools& tools_;
  const api::TrainingJob& job_;
  const std::string key_;
  const std::string revision_;
  const NamespaceRules rules_;
  const std::shared_ptr<const Credentials> credentials_;
  JobMemory& memory_ RINGMASTER_GUARDED_BY(mutex_);
  const int failures_before_;

  const Clock::Time began_;

  std::optional<JudgedJob> judged_;  // written before any request

  Mutex mutex_;
  // What the requests of this plan met.
  std::string job_version_ RINGMASTER_GUARDED_BY(mutex_);  // that the status is written upon
  std::string launcher_address_ RINGMASTER_GUARDED_BY(mutex_);
  // Of the launcher Pod that this plan created.
  std::string launcher_uid_ RINGMASTER_GUARDED_BY(mutex_);
  // The job has another seed, or another installation has the job.
  bool other_owner_ RINGMASTER_GUARDED_BY(mutex_) = false;
  // The run is pinned to another text than ours.
  bool other_text_ RINGMASTER_GUARDED_BY(mutex_) = false;
  bool status_written_ RINGMASTER_GUARDED_BY(mutex_) = false;
  bool job_gone_ RINGMASTER_GUARDED_BY(mutex_) = false;
  bool again_ RINGMASTER_GUARDED_BY(mutex_) = false;
  std::optional<Refusal> refusal_ RINGMASTER_GUARDED_BY(mutex_);
  std::optional<Error> error_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::job
