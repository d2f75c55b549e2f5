#pragma once

// The in-memory state of a job between reconciles. The process may lose it at any time: a restart
// only causes an early retry, a longer wait for a drain, or lost evidence that the launcher then
// collects itself. Only the reconciler writes it; the plan and the actor read it.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/control/membership.h"
#include "operator/api/types.h"
#include "operator/job/model/launcher_view.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/report_budget.h"

namespace ringmaster::job {

// Why create requests failed.
enum class RefusalCause {
  kOther,  // the API server refused them for a reason that is not in this list
  kQuotaExceeded,
  kPodSecurity,
  kForbidden,
  kInvalidPod,              // the API server rejects the spec's Pod, so a retry cannot succeed
  kInvalidSpec,             // the operator rejects the spec, whatever the profile
  kRefusedByProfile,        // the job's profile does not allow the spec
  kNameConflict,            // an object of another owner has the name
  kNameInUse,               // an object that is being removed still has the name
  kCredentialsUnavailable,  // the operator has no credentials for the job
};

// Returns the reason of a condition that reports the cause.
const char* ReasonOf(RefusalCause cause);

// Why the last create requests failed, and when to retry them.
struct Refusal {
  RefusalCause cause = RefusalCause::kOther;
  std::string message;  // the API server's message
  // True only for a job that has never started: no object is created until its spec changes.
  bool stalled = false;
  int failures = 0;  // consecutive refusals
  Clock::Time retry_at{};
};

// The object that keeps the spec of a job's run (run_pin.h).
struct RunPin {
  std::string uid;                 // UID of the ControllerRevision
  std::string revision;            // hash of its content; a label of the job's Pods
  std::string profile;             // the run's profile at its start; empty: none
  std::string tools_image;         // the run's tools image (manifests/injection.h); empty: none
  bool has_default_image = false;  // whether `spec` has the default image at the run's start
  // The content of the object. Null: it equals the job's spec, so no second copy is kept.
  std::shared_ptr<const api::TrainingJobSpec> spec;
};

// A worker Pod that existed and whose object is now gone, so the Pod has certainly ended.
struct GoneWorker {
  std::string pod_uid;
  std::optional<control::Epoch>
      epoch;  // the launcher's epoch when the Pod was missed, once it is known
  std::string pod{};
  std::string node{};
  bool news = true;  // whether the Pod was first missed in this reconcile and was not leaving
};

// Scheduled Pods that do not start and whose status does not give the reason (pod_events.h).
struct SlowStart {
  std::map<std::string, Clock::Time> since;  // when each Pod was first seen, by UID
  std::string asked;                         // UID of the Pod whose events were read last
  std::string warning;                       // newest warning event of that Pod; empty: none
  Clock::Time ask_again{};
  int times = 0;  // number of times that events were read
};

// The result of a check of the job's NetworkPolicies.
struct IsolationCheck {
  bool isolated = false;
  std::string why_not;  // empty if isolated
  Clock::Time at{};
};

// The writes of the status that are limited (status_write_policy.h).
struct StatusWrites {
  std::optional<Clock::Time> progress;  // when progress was written last
  ReportBudget reports;                 // limits writes that the launcher's reports cause
};

// A suspension that is in progress.
struct SuspensionMemory {
  Clock::Time since{};
  int64_t step = 0;                         // the training step at `since`
  std::optional<Clock::Time> ending_since;  // when the ranks were first asked to stop
};

// The removal of a deleted job's checkpoints (removal_plan.h).
struct RemovalMemory {
  std::optional<Clock::Time> since;  // when the deletion was first seen
  std::string pod_uid;               // UID of the last Pod created for the removal
  std::optional<Refusal> refusal;    // why the create of such a Pod was refused
  bool for_good = false;             // whether a retry cannot succeed
  // Whether the finalizer was removed. The store may still show it for a moment. There is no new
  // resourceVersion to wait for, because a patch that removes the last finalizer of a deleted
  // object returns the unchanged object.
  bool released = false;
};

struct JobMemory {
  std::optional<Refusal> refusal;
  std::optional<Clock::Time> creates_fail_since;  // when creates began to fail (act_result.cc)
  std::optional<RunPin> pin;  // keeps the run's spec; unset: not found, or not looked up
  bool pin_sought = false;    // whether the pin was looked up
  int looked_again = 0;       // consecutive early retries because the stores were behind
  int64_t unused_term = 0;    // a raised term whose Pod was certainly not created; 0: none
  int64_t claim_term = 0;     // TermOfClaim() when this process first saw it; 0: not handed over
  std::set<std::string> taken_names;
  std::optional<Clock::Time> unclaimed_since;  // when the claim was first planned
  StatusWrites status_writes;
  std::optional<Clock::Time> ended_since;  // when the end of the job was first seen
  std::optional<SuspensionMemory> suspension;
  std::optional<Clock::WallTime> phase_since;  // when this process wrote the current status.state

  std::map<std::string, PodPtr> workers;             // the existing worker Pods, by UID
  std::set<std::string> nodes;                       // nodes of this job's Pods that have existed
  std::vector<GoneWorker> gone;                      // oldest first
  std::map<std::string, Clock::Time> leaving_since;  // when a Pod's mark was first seen, by UID
  SlowStart slow_start;
  RemovalMemory removal;
  std::optional<IsolationCheck> isolation;  // the latest check; unset: none yet
  std::vector<std::string> admitted;        // node addresses that the launcher's policy admits
  // Problems that were already reported. Each problem is reported only once.
  bool announced_nodes = false;      // the event NodesUnreachable
  bool announced_drain = false;      // the event NotDrained, for workers that leave too slowly
  bool announced_launchers = false;  // silent launchers that are not replaced

  // Returns when the Pod's leaving mark was first seen; unset: it has not been seen.
  std::optional<Clock::Time> LeavingSince(const std::string& pod_uid) const {
    const auto found = leaving_since.find(pod_uid);
    return found == leaving_since.end() ? std::nullopt : std::optional(found->second);
  }
};

// Returns the time until the next check of the job's NetworkPolicies; zero: now. The check is
// needed because the operator does not watch them, and users may edit or delete them.
inline constexpr std::chrono::minutes kCheckIsolation{10};
std::chrono::milliseconds IsolationCheckDue(const std::optional<IsolationCheck>& latest,
                                            Clock::Time now);

// Updates the memory with the current observations. Called before every plan.
void Remember(const Observed& observed, const std::optional<LauncherView>& launcher,
              Clock::Time now, JobMemory& memory);

}  // namespace ringmaster::job
