#pragma once

// Is the present launcher lost although its Pod looks alive? One that had answered and then says
// nothing for five seconds is replaced under the next term; ranks train on meanwhile, and one that
// was only unreachable from here costs them nothing. One that has never answered this operator may
// still be starting and is left alone, unless its node is not heard either.
//
// Where most launchers are not heard, the silence is more likely the operator's own: then only a
// launcher whose node is not ready either is replaced, for at most a minute. A tenant may silence
// its launchers on purpose, so other namespaces count once each, and one of them alone proves
// nothing. Pure.

#include <chrono>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/model/launcher_view.h"
#include "operator/job/model/observed.h"

namespace ringmaster::job {

inline constexpr std::chrono::seconds kLauncherSilenceLimit{5};
// For so long the silence of others keeps a launcher that is silent, too.
inline constexpr std::chrono::seconds kLauncherHoldLimit{60};

// What is heard of the launchers.
struct LauncherHearing {
  const LauncherView* own = nullptr;  // the job's present one; null: nobody has asked it yet
  bool answered_earlier = false;      // an earlier operator, which wrote down a world
  LaunchersHeard all{};
};

struct LauncherCheck {
  std::string lost;  // why it is lost, as a sentence; empty: it is not
  std::string held;  // why it is not replaced although it is silent, as a sentence; empty: no
  std::optional<std::chrono::milliseconds> again;  // when to judge again; unset: on news
};

LauncherCheck CheckLauncher(const Observed& observed, const JobMemory& memory,
                            const LauncherHearing& hearing, Clock::Time now);

}  // namespace ringmaster::job
