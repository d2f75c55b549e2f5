#pragma once

// The messages between attach and the agent. They share a unix socket with the messages of ranks
// (rank_agent_messages.h); messages.h defines the framing.

#include <cstdint>
#include <string>

#include "common/control/membership.h"
#include "common/control/protocol_version.h"

namespace ringmaster::control {

// The first line that attach sends.
struct AttachHello {
  int64_t cohort = 0;
  int slot = 0;
  int mpi_rank = 0;
  int mpi_world_size = 0;
  bool direct = false;  // attach runs the program itself (LaunchSpec::InPlace is false)
  int protocol = kProtocolVersion;
};

// agent -> attach: the gate is open. For a direct program: start it now.
struct AttachGo {
  Epoch epoch;
  int rank = 0;
};

// attach -> agent: a direct program runs in this process group. If attach is killed before it sends
// AttachExit, the agent kills the group.
struct AttachStarted {
  int group = 0;
};

// Output of the rank. agent -> attach: print it. attach -> agent: output of a direct program.
struct RankOutput {
  bool is_stderr = false;
  std::string data;  // bytes; base64 on the wire
};

// agent -> attach: the rank ended; exit in the same way. attach -> agent: a direct program ended.
struct AttachExit {
  RankExit exit;
};

}  // namespace ringmaster::control
