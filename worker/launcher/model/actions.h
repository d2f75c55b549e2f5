#pragma once

// The actions that Coordinator returns, as values. launcher.h carries them out; tests compare them.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/control/messages.h"
#include "common/control/verdict.h"

namespace ringmaster::launcher {

using ConnectionId = int64_t;

// One line of the hostfile. Lines are in rank order.
struct Host {
  std::string pod_uid;
  std::string pod;
  std::string address;
  int ssh_port = 0;
  int slots = 1;
  std::string user;             // login name; empty: the launcher's own user name
  ConnectionId connection = 0;  // the connection of the host's agent
};

struct SendTo {
  ConnectionId connection = 0;
  control::Message message;
};
// Sends the same message to many agents.
struct SendToAll {
  std::vector<ConnectionId> connections;
  control::Message message;
};
// Refuse sends the agent the reason and closes the connection. Drop closes it without a message.
struct Refuse {
  ConnectionId connection = 0;
  std::string reason;
};
struct Drop {
  ConnectionId connection = 0;
  std::string reason;
};
struct StartMpirun {
  int64_t cohort = 0;
  std::vector<Host> hosts;
  int world_size = 0;
  bool by_agent = false;  // mpirun reaches the hosts through their agents, not over ssh
};
struct StopMpirun {};
// Tests whether the port refuses connections. OnProbe() receives the answer.
struct Probe {
  std::string pod_uid;
  std::string address;
  int port = 0;
};
// Output of a rank that was received over the control channel.
struct Print {
  std::string whose;  // "1,<rank>", as mpirun prints it; "<Pod>/<slot>" outside of a world
  bool is_stderr = false;
  std::string data;
};
// Writes the verdict to the termination message, before agents learn that the job is over.
struct Record {
  control::Verdict verdict;
};
// Ends the launcher with this exit code. This is the last action of a job.
struct Finish {
  control::Verdict verdict;
  int exit_code = 0;
};

using Action = std::variant<SendTo, SendToAll, Refuse, Drop, StartMpirun, StopMpirun, Probe, Print,
                            Record, Finish>;
using Actions = std::vector<Action>;

// Describes why a job fails.
struct Failure {
  std::string reason;
  std::string message;
  int exit_code = 1;
  std::optional<control::RankExit> first{};  // the exit that caused the failure
};

struct MpirunExit {
  int exit_code = -1;
  int signal = 0;
  std::string start_error;  // why mpirun could not be started; empty: it was started
  std::vector<std::string> last_lines;
};

}  // namespace ringmaster::launcher
