#pragma once

// What the poller knows of a job's launcher: its newest answer, what it had been told by then, and
// its silence. A value; made by launcher_session.cc, read by the plan.

#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"

namespace ringmaster::job {

struct LauncherView {
  std::string pod_uid;  // of the launcher Pod that was asked
  std::optional<control::LauncherStatus> status;
  // What it had confirmed when it gave `status`; null before the first.
  std::shared_ptr<const control::Order> order;
  std::optional<Clock::Time> silent_since;   // unset: the last exchange brought a status
  std::optional<Clock::Time> unheard_since;  // the same, where a refusal is an answer, too
  int unheard_times = 0;                     // exchanges in a row without an answer
  double steps_per_second = 0;               // 0: unknown
};

}  // namespace ringmaster::job
