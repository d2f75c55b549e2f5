#pragma once

// The poller's knowledge of a job's launcher: its latest answer, the order that it had received by
// then, and how long it has been silent; and an overview of all launchers. Plain values, written by
// launcher_session.cc and launcher_poller.cc, read by the plan.

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
  std::string ns;       // of the job
  std::string pod_uid;  // of the launcher Pod that was asked
  std::optional<control::LauncherStatus> status;
  // The order that it had confirmed when it gave `status`; null before the first.
  std::shared_ptr<const control::Order> order;
  // An earlier operator has recorded that it had formed a world.
  bool answered_before = false;
  std::optional<Clock::Time> answered_since;  // when it gave its first status
  std::optional<Clock::Time> silent_since;    // unset: the last exchange brought a status
  std::optional<Clock::Time> unheard_since;   // the same, where a refusal is an answer, too
  int unheard_times = 0;                      // exchanges in a row without an answer
  double steps_per_second = 0;                // 0: unknown
};

// The state of all watched launchers that have answered this operator or an earlier one, as seen
// from one namespace. Each other namespace counts once, however many launchers its tenant has.
struct LaunchersHeard {
  int watched = 0;            // of this namespace
  int unheard = 0;            // of those: did not answer the last time
  int other_namespaces = 0;   // that have launchers
  int silent_namespaces = 0;  // of those: more than half of their launchers did not answer
};

// More than half.
inline bool Most(int part, int all) { return 2 * part > all; }

// `views`: of all jobs, by job UID; `ns`: whose point of view.
LaunchersHeard CountLaunchers(const std::map<std::string, LauncherView>& views,
                              std::string_view ns);

}  // namespace ringmaster::job
