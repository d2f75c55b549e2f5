#pragma once

// The process's memory of a job between reconciles. All of it may be lost at any time: a restart
// costs an early retry, a longer wait for a drain, or evidence that the launcher then collects
// itself. Written only by the reconciler; read by the plan and the actor.

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

// Why the last creates failed, until when not to try again.
struct Refusal {
  std::string reason;   // a condition reason of api/names.h
  std::string message;  // the API server's words
  bool user_error =
      false;  // the objects we make from the spec are invalid: trying again cannot help
  // For a job that never began: nothing is made of it until its spec is another one.
  bool stalled = false;
  int failures = 0;  // in a row
  Clock::Time retry_at{};
};

// The object that keeps the spec of a job's run (run_pin.h).
struct RunPin {
  std::string uid;                 // of the ControllerRevision
  std::string revision;            // of its content; the job's Pods bear it
  std::string profile;             // under which the run began; empty: none
  std::string tools_image;         // with which it began (manifests/injection.h); empty: none
  bool has_default_image = false;  // the job named none: its spec has the operator's of that time
  // Its content. Null: the same as the job's spec, of which no second copy is kept.
  std::shared_ptr<const api::TrainingJobSpec> spec;
};

// A worker Pod that was seen and whose object is gone: it certainly ended.
struct GoneWorker {
  std::string pod_uid;
  std::optional<control::Epoch>
      epoch;  // the launcher's when it was missed, as soon as one is known
  std::string pod{};
  std::string node{};
  bool news = true;  // it was not missed before
};

// Pods on their nodes that do not start and whose status does not say why (pod_events.h).
struct SlowStart {
  std::map<std::string, Clock::Time> since;  // seen first, by UID
  std::string asked;                         // UID of the one whose events were read last
  std::string warning;                       // its newest one; empty: there is none
  Clock::Time ask_again{};
  int times = 0;  // of the last question
};

// A suspension that is under way.
struct SuspensionMemory {
  Clock::Time since{};
  int64_t step = 0;                         // that training had reached by then
  std::optional<Clock::Time> ending_since;  // since when the ranks are told to end
};

// The removal of a deleted job's checkpoints (removal_plan.h).
struct RemovalMemory {
  std::optional<Clock::Time> since;  // since when the job is seen to be deleted
  std::string pod_uid;               // of the Pod that was made for it last
  std::optional<Refusal> refusal;    // of such a Pod
  bool for_good = false;             // trying again cannot help
  // The finalizer is off. The store may show the job with it for a moment more: the answer to a
  // patch that takes the last finalizer off a deleted object is the object as it was, so no newer
  // version tells.
  bool released = false;
};

struct JobMemory {
  std::optional<Refusal> refusal;
  std::optional<RunPin> pin;  // that keeps the run's text; unset: there is none, or
  bool pin_sought = false;    // it has not been looked for
  int looked_again = 0;       // in a row, because the stores were behind
  int64_t unused_term = 0;    // a term that was raised and whose Pod was certainly not created
  std::set<std::string> taken_names;
  std::optional<Clock::Time> progress_written;
  std::optional<Clock::Time> unclaimed_since;  // since when an unclaimed job is to be ended
  ReportBudget reports;                        // for writes that the launcher's reports cause
  std::optional<Clock::Time> ended_since;      // since when we know that the job is over
  std::optional<SuspensionMemory> suspension;
  std::optional<Clock::WallTime> phase_since;  // when this process wrote the present status.state

  std::map<std::string, PodPtr> workers;             // the worker Pods that exist, by UID
  std::set<std::string> nodes;                       // of this job's Pods, seen to exist
  std::vector<GoneWorker> gone;                      // oldest first
  std::map<std::string, Clock::Time> leaving_since;  // when a Pod's mark was first seen, by UID
  SlowStart slow_start;
  RemovalMemory removal;
  bool isolated = false;  // the job's NetworkPolicies were as made at `isolation_checked`
  std::optional<Clock::Time> isolation_checked;
  std::string not_isolated;           // why they cannot be; empty: they are, or it is not known
  std::vector<std::string> admitted;  // addresses of nodes that the launcher's admits
  // Problems that were already reported, so that each is reported once.
  bool told_of_nodes = false;      // the event NodesUnreachable
  bool told_of_drain = false;      // the event NotDrained, of workers that are waited for
  bool told_of_launchers = false;  // that silent launchers are not replaced

  // When the Pod's mark was first seen; unset: it was not.
  std::optional<Clock::Time> LeavingSince(const std::string& pod_uid) const {
    const auto found = leaving_since.find(pod_uid);
    return found == leaving_since.end() ? std::nullopt : std::optional(found->second);
  }
};

// How soon a job's NetworkPolicies must be checked: they are not watched, and users may edit or
// delete them. Zero: now.
inline constexpr std::chrono::minutes kCheckIsolation{10};
std::chrono::milliseconds IsolationCheckDue(const JobMemory& memory, Clock::Time now);

// Takes in what is seen now; before every plan.
void Remember(const Observed& observed, const std::optional<LauncherView>& launcher,
              Clock::Time now, JobMemory& memory);

}  // namespace ringmaster::job
