#pragma once

// What mpirun starts in place of ssh for each host: asks the launcher to have the host's agent run
// a command, passes on what that prints, and ends as it does. Blocks; one thread.

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
