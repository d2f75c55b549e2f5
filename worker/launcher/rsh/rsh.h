#pragma once

// Replaces ssh for mpirun: asks the launcher to run a command through the agent of a host, passes
// on the command's output, and exits with its exit code. Blocks; uses one thread.

#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::launcher {

// The exit code if the host could not be reached or was lost; the same as that of ssh.
inline constexpr int kExitNotReached = 255;

struct RshRequest {
  std::string socket;   // path of the launcher's socket
  std::string host;     // host name in the hostfile
  std::string command;  // command line for the host's shell; mpirun has quoted it
};

// Parses --socket=PATH HOST COMMAND.... Joins the command's words with blanks, like ssh. Pure.
Result<RshRequest> ReadRshArguments(const std::vector<std::string>& arguments);

// Blocks until the command has ended. Returns the exit code. Prints to the standard streams.
int RunRemotely(const RshRequest& request);

}  // namespace ringmaster::launcher
