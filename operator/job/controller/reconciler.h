#pragma once

// Reconciles one job: observe, plan, act. The Controller's workers call it, concurrently for
// different jobs but never for the same one. A Reconciler keeps only state that may be lost on a
// restart.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/job/admission/job_rules.h"
#include "operator/job/admission/profile.h"
#include "operator/job/controller/job_requests.h"
#include "operator/job/controller/observe.h"
#include "operator/job/controller/profile_source.h"
#include "operator/job/controller/question_turns.h"
#include "operator/job/credentials/credentials.h"
#include "operator/job/credentials/keyring.h"
#include "operator/job/launchers/launcher_poller.h"
#include "operator/job/model/plan.h"
#include "operator/job/model/violation.h"
#include "operator/job/policy/ownership.h"
#include "operator/runtime/controller.h"
#include "operator/runtime/store.h"

namespace ringmaster::job {

// The reconciler's dependencies. All references must outlive the Reconciler.
struct ReconcilerParts {
  ActorTools tools;
  const JobStore& jobs;
  const PodStore& pods;
  const ServiceStore& services;
  const NodeStore& nodes;
  Keyring& keyring;
  LauncherPoller& launchers;
  ProfileSource profiles;
  Scope scope;
  std::function<int64_t()> leader_term;  // the term in orders, above those of earlier leaders
};

class Reconciler {
 public:
  explicit Reconciler(ReconcilerParts parts);

  // `key` is "<namespace>/<name>" of a TrainingJob, which may be gone. Blocks on the API server.
  Result<runtime::ReconcileResult> Reconcile(const std::string& key);

 private:
  using JobPtr = std::shared_ptr<const api::TrainingJob>;

  // A job's state outside the stores. Only the worker that processes the job's key uses it.
  struct Known {
    std::string uid;
    JobMemory memory;
    JobPtr seen;  // the job for which `revision` was computed, with the profile `seen_under`
    ProfilePtr seen_under;
    std::string revision;  // revision of the spec that a new run would pin
    std::shared_ptr<const api::TrainingJobSpec>
        merged;     // the spec merged with its profile's workload; null: none
    JobPtr judged;  // the job to which the violations belong
    Choice judged_under;
    std::vector<Violation> violations;
  };
  // A job with the spec of its run.
  struct Run {
    JobPtr job{};
    std::string revision{};
    std::vector<std::string> changed{};  // fields whose values differ in the current spec
    Choice profile{};
    bool has_tools = true;
    JobRules Rules() const {
      JobRules rules = RulesOf(profile, job->ns);
      rules.has_tools = has_tools;
      return rules;
    }
    // Returns the name of the run's profile; empty if the job does not need Pods.
    std::string ProfileName() const {
      const bool makes_pods = job->spec.texts != api::TrainingJobSpec::Texts::kNotNeeded;
      return makes_pods && profile.profile != nullptr ? profile.profile->name : std::string();
    }
  };

  // Handles a deleted job whose finalizer waits for the removal of checkpoints.
  Result<runtime::ReconcileResult> RemoveCheckpoints(const JobPtr& stored, bool left_behind);
  ServicePtr LauncherServiceOf(const api::TrainingJob& job) const;
  Known& KnownOf(const api::TrainingJob& job);
  Choice ProfileOf(const api::TrainingJob& job, const std::string& wanted) const;
  // Records the job's current spec, as merged with its profile.
  void Look(const JobPtr& job, const Choice& profile, Known& known) const;
  Result<Run> RunOf(const JobPtr& job, Known& known);
  Result<void> FindPin(const api::TrainingJob& job, Known& known);
  // Records violations as a refusal in the job's memory, which prevents new Pods.
  void JudgeSpec(const Run& run, const Observed& observed, Known& known, Clock::Time now) const;
  void Forget(const std::string& key);
  void ForgetUid(const std::string& uid);
  // Returns null if the job needs no credentials, or if none are available (see JobMemory).
  Result<std::shared_ptr<const Credentials>> NeedCredentials(const api::TrainingJob& job,
                                                             const Observed& observed,
                                                             JobMemory& memory, Clock::Time now);
  Result<std::shared_ptr<const Credentials>> CredentialsOf(const api::TrainingJob& job,
                                                           const Observed& observed);
  void TalkToLauncher(const api::TrainingJob& job, const Observed& observed, const Plan& plan,
                      const std::shared_ptr<const Credentials>& credentials, JobMemory& memory);

  // Reads the events of a Pod that does not start. Returns the maximum delay of the next reconcile.
  std::chrono::milliseconds AskAbout(const api::TrainingJob& job, const PodQuestion& question,
                                     SlowStart& slow);

  const ReconcilerParts parts_;
  CredentialsCache credentials_;

  Mutex mutex_;
  QuestionTurns turns_ RINGMASTER_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<Known>> known_
      RINGMASTER_GUARDED_BY(mutex_);  // each is used only by the worker that has its key
};

}  // namespace ringmaster::job
