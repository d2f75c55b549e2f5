#include "worker/launcher/rsh/rsh_main.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "worker/launcher/rsh/rsh.h"

namespace ringmaster::launcher {

int RshMain(int argc, char** argv) {
  if (argc == 2 && argv[1] == std::string_view("--help")) {
    std::puts(
        "Ringmaster's remote shell: runs COMMAND through the agent of HOST, a worker of this job.\n"
        "Usage, by mpirun in the launcher's Pod: ringmaster-rsh --socket=PATH HOST COMMAND...");
    return 0;
  }
  signal(SIGPIPE, SIG_IGN);
  try {
    const Result<RshRequest> request =
        ReadRshArguments(std::vector<std::string>(argv + 1, argv + argc));
    if (request.ok()) return RunRemotely(*request);
    std::fprintf(stderr, "ringmaster-rsh: %s\n", request.error().message.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringmaster-rsh: %s\n", error.what());
  }
  return kExitNotReached;
}

}  // namespace ringmaster::launcher
