#pragma once

// Sanitises what a launcher reports. A launcher runs in the user's Pod, so its reports are
// untrusted: numbers are clamped to ranges that policies can handle, texts and lists are cut to the
// size that a status can hold, and invalid reasons are cleared. Pure functions, applied to each
// answer (launcher_session.cc) and verdict (verdict_policy.cc).

#include "common/control/launcher_api.h"
#include "common/control/verdict.h"

namespace ringmaster::job {

void Bound(control::LauncherStatus& status);
void Bound(control::Verdict& verdict);

}  // namespace ringmaster::job
