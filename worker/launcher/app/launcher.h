#pragma once

// The launcher program: carries out what Coordinator decides. One thread runs the io_context with
// the agents' connections, the operator's API, mpirun and the timer.

#include "common/base/clock.h"
#include "common/control/verdict.h"
#include "worker/launcher/model/config.h"

namespace ringmaster::launcher {

// Runs the job to its end. Blocks. Returns the exit code: 0 on success, the code of the first rank
// that failed, or 143 after SIGTERM. When it returns, the verdict is in the termination log.
// `clock` must outlive the call.
int RunLauncher(const Config& config, const Clock& clock);

// Writes a verdict to the termination log in place, because Kubernetes mounts that file.
void WriteVerdict(const std::string& termination_log, const control::Verdict& verdict);

}  // namespace ringmaster::launcher
