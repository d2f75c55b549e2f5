#pragma once

// Is the present launcher lost although its Pod looks alive? One that had answered and then says
// nothing for five seconds is replaced under the next term; ranks train on meanwhile, and one that
// was only unreachable from here costs them nothing. Where two or more, and more than half, of all
// launchers are not heard, the silence is more likely the operator's own: only a launcher whose
// node is not ready either is replaced. One that has never answered this operator may still be
// starting and is left alone, unless its node is not heard either. Pure.

#include <chrono>
#include <optional>
#include <string>

#include "operator/job/plan.h"

namespace ringmaster::job {

inline constexpr std::chrono::seconds kLauncherSilenceLimit{5};

struct LauncherCheck {
  std::string lost;  // why it is lost, as a sentence; empty: it is not
  std::string held;  // why it is not replaced although it is silent, as a sentence; empty: no
  std::optional<std::chrono::milliseconds> again;  // when to judge again; unset: on news
};

LauncherCheck CheckLauncher(const PlanInput& input);

}  // namespace ringmaster::job
