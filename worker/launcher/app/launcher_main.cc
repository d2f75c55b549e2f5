#include "worker/launcher/app/launcher_main.h"

#include <csignal>
#include <sys/resource.h>

#include <CLI/CLI.hpp>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/command_line/parse_arguments.h"
#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "worker/launcher/app/launcher.h"
#include "worker/launcher/model/config.h"

namespace ringmaster::launcher {

int Main(int argc, char** argv) {
  CLI::App app("Ringmaster's launcher: runs a job through the agents on its workers.");
  app.set_version_flag("--version", RINGMASTER_VERSION);
  try {
    ParseArguments(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  const Environment environment = ProcessEnvironment();
  const auto level = environment.find("RINGMASTER_LOG_LEVEL");
  InitLog("launcher", level == environment.end() ? "info" : level->second, LogFormat::kText);
  std::signal(SIGPIPE, SIG_IGN);
  // Each connection needs a descriptor, including one that has not sent a hello.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }

  const auto config = ReadConfig(environment);
  if (!config.ok()) {
    LogError("Failed to start the launcher", {{"reason", config.error().message}});
    const auto log = environment.find(control::kEnvTerminationLog);
    control::Verdict verdict;
    verdict.reason = control::kReasonLauncherError;
    verdict.message = config.error().message;
    WriteVerdict(log == environment.end() ? control::kTerminationLog : log->second, verdict);
    return control::kExitFailed;
  }
  return RunLauncher(*config, SystemClock());
}

}  // namespace ringmaster::launcher
