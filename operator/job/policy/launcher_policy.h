#pragma once

// Decides whether the current launcher is lost although its Pod looks alive. A launcher that has
// answered before and is silent for five seconds is replaced under the next term. Ranks continue to
// train meanwhile, so replacing an unreachable launcher is safe. A launcher that has never answered
// this operator may still be starting and is not replaced, unless its node is silent too.
//
// If most launchers are silent, the cause is more likely the operator's network: for at most a
// minute, only launchers on nodes that are not ready are replaced. Tenants may silence their
// launchers on purpose, so each other namespace counts once, and a single namespace is not
// sufficient evidence. Pure functions.

#include <chrono>
#include <optional>
#include <set>
#include <string>

#include "common/base/clock.h"
#include "operator/job/model/launcher_view.h"
#include "operator/job/model/observed.h"

namespace ringmaster::job {

inline constexpr std::chrono::seconds kLauncherSilenceLimit{5};
// The longest time for which a silent launcher is kept because most launchers are silent.
inline constexpr std::chrono::seconds kLauncherHoldLimit{60};

// The known state of the launchers.
struct LauncherHearing {
  const LauncherView* own = nullptr;  // the job's current launcher; null: it was never polled
  bool answered_earlier = false;      // whether an earlier operator recorded a world of the job
  LaunchersHeard all{};
};

struct LauncherCheck {
  std::string lost;  // why the launcher is lost, as a sentence; empty if it is not
  std::string held;  // why a silent launcher is kept, as a sentence; empty if it is not
  std::optional<std::chrono::milliseconds> again;  // when to check again; unset: after a change
};

// `known_nodes`: JobMemory::nodes.
LauncherCheck CheckLauncher(const Observed& observed, const std::set<std::string>& known_nodes,
                            const LauncherHearing& hearing, Clock::Time now);

}  // namespace ringmaster::job
