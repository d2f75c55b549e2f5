#pragma once

// Replaces ssh for mpirun: asks the launcher to run a command through the agent of a host, passes
// its output on, and exits with its exit code. Blocks; uses one thread.

#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::launcher {

// The host could not be reached or was lost, as ssh says it.
inline constexpr int kExitNotReached = 255;

struct RshRequest {
  std::string socket;   // of the launcher
  std::string host;     // as the hostfile names it
  std::string command;  // a line for the host's shell: mpirun quotes for one
};

// From --socket=PATH HOST COMMAND...; the command's words are joined by blanks, as ssh does. Pure.
Result<RshRequest> ReadRshArguments(const std::vector<std::string>& arguments);

// Until the command has ended; returns the exit code to end with. Prints to our standard streams.
int RunRemotely(const RshRequest& request);

}  // namespace ringmaster::launcher
