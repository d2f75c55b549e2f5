#pragma once

// The messages from ringmaster-rsh to the launcher, sent over a unix socket in the launcher's
// runtime directory; messages.h defines the framing. The launcher answers with CommandOutput and
// CommandExited (agent_launcher_messages.h) without an id, or with Refused.

#include <cstddef>
#include <string>

#include "common/control/protocol_version.h"

namespace ringmaster::control {

// The kernel's limit for one argument: a shell gets the whole command as one argument.
inline constexpr std::size_t kMaxCommandBytes = (128 << 10) - 1;

// The only line that ringmaster-rsh sends. When the connection ends, the launcher ends the command.
struct RshHello {
  std::string host;     // the name of the host in the hostfile
  std::string command;  // a shell command line
  int protocol = kProtocolVersion;
};

}  // namespace ringmaster::control
