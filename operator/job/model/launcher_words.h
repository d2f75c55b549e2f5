#pragma once

// What a launcher may say. It runs in the user's Pod, so nothing it says is trusted: numbers are
// brought into ranges that policies can compute with, texts and lists are cut to what a status has
// room for, and reasons are words. What is left is the job's own affair. Pure; used where an answer
// (launcher_session.cc) or a verdict (verdict_policy.cc) comes in.

#include "common/control/launcher_api.h"
#include "common/control/verdict.h"

namespace ringmaster::job {

void Bound(control::LauncherStatus& status);
void Bound(control::Verdict& verdict);

}  // namespace ringmaster::job
