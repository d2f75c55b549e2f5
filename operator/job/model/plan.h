#pragma once

// The input and output of a reconcile's plan. make_plan.h computes a plan with policies that each
// read part of the input; the actor executes it.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "operator/api/types.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/model/launcher_view.h"
#include "operator/job/model/observed.h"

namespace ringmaster::job {

// The shortest period between status writes that change only the progress (ProgressPeriod).
inline constexpr std::chrono::milliseconds kLeastProgressPeriod{2'000};

struct PlanInput {
  const api::TrainingJob& job;
  const Observed& observed;
  const std::optional<LauncherView>& launcher;
  const JobMemory& memory;
  Clock::Time now;
  Clock::WallTime wall_now;
  LaunchersHeard launchers{};    // set only while this job's launcher does not answer
  bool network_policies = true;  // whether jobs get NetworkPolicies
  std::string installation{};    // the name of this operator's installation
  std::string profile{};         // the profile of the run; empty: the one in the status
  // The period of status writes that change only the progress. Other changes are written at once.
  std::chrono::milliseconds progress_period = kLeastProgressPeriod;
  // Fields of the job's spec that differ from the spec of its run. `job` has the run's values.
  std::vector<std::string> changed{};
};

// The plan's decisions about Pods, for the job's status.
struct PodsOutlook {
  bool complete = false;       // whether the launcher and all wanted workers exist
  bool launcher_lost = false;  // whether the launcher is missing or ended; its reports are ignored
  std::chrono::milliseconds back_off{0};  // delay before Pods are created again after failures
  bool worker_lost = false;               // whether this plan found a lost or ended worker
  std::string launcher_held;  // why a silent launcher is kept; empty: it answers or is replaced
  std::string unreachable;    // why nodes that are not ready are ignored; empty: none are ignored
};

struct PodDelete {
  std::string name;
  std::string uid;
  std::string resource_version{};  // a precondition of the delete; empty: any version
};

// A mark with the reason why a Pod must leave, written to the Pod before any other action.
struct PodMark {
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string reason;
};

// A Pod whose events are read to find out why the Pod does not start (pod_events.h).
struct PodQuestion {
  std::string pod;
  std::string uid;
};

struct PlannedEvent {
  bool warning = false;
  std::string reason;
  std::string action;
  std::string note;
  bool of_status = false;  // whether the event is recorded only if the status is written
};

// The progress of a suspension: the operator waits for the job's next checkpoint, or it stops the
// ranks and then the Pods.
enum class Suspending { kNo, kAwaitingCheckpoint, kEnding };

// The fields are approximately in the order in which the actor handles them.
struct Plan {
  // A running launcher to delete: it does not answer, or the job's time limit has passed. The store
  // may not show the launcher's verdict yet. If the Pod has changed since, no part of the plan is
  // executed.
  std::optional<PodDelete> end_launcher;
  std::optional<int64_t>
      raise_term;      // write status.launcher_term (compare-and-set) before the Pod's creation
  bool pin = false;    // pin the run's spec, which is not pinned yet
  bool unpin = false;  // remove the pin, so that the next run uses the job's current spec
  bool create_services = false;             // create the Services, because at least one is missing
  std::optional<int64_t> point_service_at;  // set the term that the launcher's Service selects
  bool claim_service = false;  // write this installation's name to the launcher's Service
  bool isolate = false;  // check and repair the NetworkPolicies of a job that already has Pods
  // The new list of node addresses that the launcher's NetworkPolicy admits.
  std::optional<std::vector<std::string>> admit_nodes;
  std::optional<int64_t> create_launcher;
  std::vector<int> create_workers;
  std::vector<PodMark> marks;
  api::TrainingJobStatus status;
  bool write_status = false;
  bool of_reports = false;         // whether only values from the launcher change
  std::vector<PodDelete> deletes;  // executed after the status write, which records the reasons
  // Add or remove the job's finalizer. It is added before the first worker is created, or once the
  // job needs it, and removed when the job no longer needs it (removal_plan.h).
  bool hold = false;
  bool let_go = false;
  bool delete_job = false;  // delete the job, because its TTL has expired
  std::vector<PlannedEvent> events;
  std::optional<control::Order>
      order;  // the launcher's order; unset: no launcher. The reconciler adds the leader's term
  std::optional<PodQuestion> ask_about;
  std::optional<std::chrono::milliseconds> requeue_after;

  // Returns true for the job's first launcher: its name is unique, so it may precede raise_term.
  bool CreatesFirstLauncher() const { return create_launcher == 1 && raise_term == 1; }
  bool nodes_unreachable = false;  // whether many nodes are not ready, so that they are ignored
  Suspending suspending = Suspending::kNo;
  bool claims = false;  // whether this plan claims the job, so that a later one can end it
  bool confirm_claim =
      false;                  // the status is written only if no other installation has the Service
  bool drain_held = false;    // whether a worker exceeded its time to leave and still drains
  std::string launcher_held;  // why a silent launcher is kept, as a sentence; empty: it answers,
                              // or it is replaced

  void EndLauncher(const PodView& pod) {
    end_launcher = {.name = pod.name, .uid = pod.uid, .resource_version = pod.resource_version};
  }
  // Adds a delete. Returns false if the plan has kMostPodsAtOnce deletes; the next plan continues.
  bool Delete(const PodView& pod) {
    if (deletes.size() >= kMostPodsAtOnce) {
      RequeueImmediately();
      return false;
    }
    deletes.push_back({.name = pod.name, .uid = pod.uid});
    return true;
  }
  void AddEvent(bool warning, std::string reason, const char* action, std::string note) {
    events.push_back({.warning = warning,
                      .reason = std::move(reason),
                      .action = action,
                      .note = std::move(note)});
  }
  void RequeueImmediately() { requeue_after = std::chrono::milliseconds(1); }
  bool CreatesPods() const { return create_launcher.has_value() || !create_workers.empty(); }
  void RequeueWithin(std::chrono::milliseconds delay) {
    if (!requeue_after || delay < *requeue_after) requeue_after = delay;
  }
};

}  // namespace ringmaster::job
