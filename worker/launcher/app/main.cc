// ringmaster-launcher: one per job, in its own Pod. Everything it needs to know is in its
// environment (common/control/pod_contract.h).

#include <csignal>
#include <sys/resource.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "worker/launcher/app/launcher.h"
#include "worker/launcher/model/config.h"

int main() {
  using namespace ringmaster;  // NOLINT(google-build-using-namespace): the program's own
  const launcher::Environment environment = launcher::ProcessEnvironment();
  const auto level = environment.find("RINGMASTER_LOG_LEVEL");
  InitLog("launcher", level == environment.end() ? "info" : level->second, LogFormat::kText);
  std::signal(SIGPIPE, SIG_IGN);
  // A connection for each worker, and strangers.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }

  const auto config = launcher::ReadConfig(environment);
  if (!config.ok()) {
    LogError("Could not start the launcher", {{"reason", config.error().message}});
    const auto log = environment.find(control::kEnvTerminationLog);
    control::Verdict verdict;
    verdict.reason = control::kReasonLauncherError;
    verdict.message = config.error().message;
    launcher::WriteVerdict(log == environment.end() ? control::kTerminationLog : log->second,
                           verdict);
    return control::kExitFailed;
  }
  return launcher::RunLauncher(*config, SystemClock());
}
