#pragma once

// Is the present launcher lost although its Pod looks alive? One that had answered and then says
// nothing for five seconds is replaced under the next term; ranks train on meanwhile. One that has
// never answered this operator may still be starting and is left alone, unless its node is not
// heard either. Pure.

#include <chrono>
#include <optional>
#include <string>

#include "operator/job/plan.h"

namespace ringmaster::job {

inline constexpr std::chrono::seconds kLauncherSilenceLimit{5};

struct LauncherCheck {
  std::string lost;  // why it is lost, as a sentence; empty: it is not
  std::optional<std::chrono::milliseconds> again;  // when to judge again; unset: on news
};

LauncherCheck CheckLauncher(const PlanInput& input);

}  // namespace ringmaster::job
