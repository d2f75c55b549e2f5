#pragma once

// The input and output of a plan, as values. make_plan.h computes a plan with policies that each
// read part of the input; the actor carries it out.

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

// For a job among few: how often its status is written for its progress alone (ProgressPeriod).
inline constexpr std::chrono::milliseconds kLeastProgressPeriod{2'000};

struct PlanInput {
  const api::TrainingJob& job;
  const Observed& observed;
  const std::optional<LauncherView>& launcher;
  const JobMemory& memory;
  Clock::Time now;
  Clock::WallTime wall_now;
  LaunchersHeard launchers{};    // counted only while this job's launcher is not heard
  bool network_policies = true;  // jobs get them
  std::string installation{};    // ours
  std::string profile{};         // that the run is judged and merged by; empty: as the status says
  // Progress alone is written this often; anything else that changes is written at once.
  std::chrono::milliseconds progress_period = kLeastProgressPeriod;
  // Fields of the job's spec that differ from what its run is made from; `job` has the run's.
  std::vector<std::string> changed{};
};

// The plan's decisions about Pods that the status reports.
struct PodsOutlook {
  bool complete = false;       // the launcher and all wanted workers exist
  bool launcher_lost = false;  // there is none, or it ended: nothing of it counts any more
  std::chrono::milliseconds back_off{0};  // creates wait this long after failures
  bool worker_lost = false;               // at least one was found lost or ended just now
  std::string launcher_held;  // why a silent launcher is not replaced; empty: it is none, or it is
  std::string unreachable;    // why nothing is done about nodes that are not ready; empty: nothing
};

struct PodDelete {
  std::string name;
  std::string uid;
  std::string resource_version{};  // of the only version that is deleted; empty: of any
};

// Why a Pod must leave, written to the Pod before any other action.
struct PodMark {
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string reason;
};

// A Pod whose events are read, as nothing else says why it does not start (pod_events.h).
struct PodQuestion {
  std::string pod;
  std::string uid;
};

struct PlannedEvent {
  bool warning = false;
  std::string reason;
  std::string action;
  std::string note;
  bool of_status = false;  // tells of a change in the status, and only together with it
};

// A job on its way to be suspended: its next checkpoint is waited for, or its ranks and then its
// Pods are being ended.
enum class Suspending { kNo, kAwaitingCheckpoint, kEnding };

// The order of the fields is the order in which the reconciler acts.
struct Plan {
  // A launcher that runs according to the store but must not: it does not answer, or the job's time
  // is over. The store may be older than its verdict: if the Pod has changed since, nothing of this
  // plan is carried out.
  std::optional<PodDelete> end_launcher;
  std::optional<int64_t>
      raise_term;      // write status.launcher_term (compare-and-set) before its Pod is created
  bool pin = false;    // the run's text is not pinned yet
  bool unpin = false;  // the run is over: the next one takes its text from the job's spec
  bool create_services = false;             // at least one is missing
  std::optional<int64_t> point_service_at;  // the launcher's Service selects another term
  bool claim_service = false;  // the launcher's Service names the installation that had the job
  bool isolate = false;  // the NetworkPolicies of a job that has its Pods are looked at, and mended
  // The launcher's NetworkPolicy admits these addresses of nodes from now on.
  std::optional<std::vector<std::string>> admit_nodes;
  std::optional<int64_t> create_launcher;
  std::vector<int> create_workers;
  std::vector<PodMark> marks;
  api::TrainingJobStatus status;
  bool write_status = false;
  bool of_reports = false;         // that write brings only what the launcher reports
  std::vector<PodDelete> deletes;  // after the status, which names what they are about
  // The job gets its finalizer before its first worker, or as soon as it wants one, and loses it
  // when it does not want one any more (removal_plan.h).
  bool hold = false;
  bool let_go = false;
  bool delete_job = false;  // it has ended, and its time to live is over
  std::vector<PlannedEvent> events;
  std::optional<control::Order>
      order;  // for the launcher; unset when there is none to ask. The stamp is the reconciler's
  std::optional<PodQuestion> ask_about;
  std::optional<std::chrono::milliseconds> requeue_after;

  // The first term needs no compare-and-set before its Pod: the Pod's name is as good.
  bool CreatesFirstLauncher() const { return create_launcher == 1 && raise_term == 1; }
  bool nodes_unreachable = false;  // nothing is done about nodes that are not ready: too many
  Suspending suspending = Suspending::kNo;
  bool claims = false;  // the job is to be ended, and first taken
  bool confirm_claim =
      false;                  // the status may be written only if no other has the job by a Service
  bool drain_held = false;    // a worker had its time to leave, and is waited for all the same
  std::string launcher_held;  // why a silent launcher is not replaced, as a sentence; empty: it is
                              // not silent, or replaced

  void EndLauncher(const PodView& pod) {
    end_launcher = {.name = pod.name, .uid = pod.uid, .resource_version = pod.resource_version};
  }
  // False where that is left to the next plan.
  bool Delete(const PodView& pod) {
    if (deletes.size() >= kMostPodsAtOnce) {
      GoOnAtOnce();
      return false;
    }
    deletes.push_back({.name = pod.name, .uid = pod.uid});
    return true;
  }
  void Tell(bool warning, std::string reason, const char* action, std::string note) {
    events.push_back({.warning = warning,
                      .reason = std::move(reason),
                      .action = action,
                      .note = std::move(note)});
  }
  void GoOnAtOnce() { requeue_after = std::chrono::milliseconds(1); }
  bool CreatesPods() const { return create_launcher.has_value() || !create_workers.empty(); }
  void RequeueWithin(std::chrono::milliseconds delay) {
    if (!requeue_after || delay < *requeue_after) requeue_after = delay;
  }
};

}  // namespace ringmaster::job
