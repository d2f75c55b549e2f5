#pragma once

// The poller's view of a job's launcher: its latest status, the order that it had received by then,
// and when it stopped answering. LaunchersHeard summarises all launchers. Plain values,
// written by launcher_session.cc and launcher_poller.cc, and read by the plan.

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"

namespace ringmaster::job {

struct LauncherView {
  std::string ns;       // the job's namespace
  std::string pod_uid;  // UID of the polled launcher Pod
  std::optional<control::LauncherStatus> status;
  // The last order that the launcher had acknowledged when it sent `status`; null: none.
  std::shared_ptr<const control::Order> order;
  // True if the job's status, written by an earlier operator, shows that a world had formed.
  bool answered_before = false;
  std::optional<Clock::Time> answered_since;  // when the launcher sent its first status
  std::optional<Clock::Time> silent_since;    // when polls began to fail; unset: the last succeeded
  std::optional<Clock::Time> unheard_since;   // like silent_since, but any response is a success
  int unheard_times = 0;                      // consecutive exchanges without an answer
  bool has_newer_order = false;  // whether it refused the last order as older than one that it has
  double steps_per_second = 0;   // 0: unknown
};

// Counts of the watched launchers that have answered this operator or an earlier one, for a job in
// one namespace. Each other namespace counts once, however many launchers it has.
struct LaunchersHeard {
  int watched = 0;            // launchers in this namespace
  int unheard = 0;            // launchers among these that did not answer the last request
  int other_namespaces = 0;   // other namespaces with launchers
  int silent_namespaces = 0;  // other namespaces where most launchers did not answer
};

// Returns true if `part` is more than half of `all`.
inline bool Most(int part, int all) { return 2 * part > all; }

// Counts the launchers for a job in the namespace `ns`. `views`: the views of all jobs, by job UID.
LaunchersHeard CountLaunchers(const std::map<std::string, LauncherView>& views,
                              std::string_view ns);

}  // namespace ringmaster::job
