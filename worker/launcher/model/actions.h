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

// One line of the hostfile, in rank order.
struct Host {
  std::string pod_uid;
  std::string pod;
  std::string address;
  int ssh_port = 0;
  int slots = 1;
  std::string user;             // to log in as; empty: the launcher's own name
  ConnectionId connection = 0;  // its agent's
};

struct SendTo {
  ConnectionId connection = 0;
  control::Message message;
};
// The same message to many.
struct SendToAll {
  std::vector<ConnectionId> connections;
  control::Message message;
};
// Tell it why, then close. With `Drop` nothing is told.
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
// Does this port refuse? Answered by OnProbe.
struct Probe {
  std::string pod_uid;
  std::string address;
  int port = 0;
};
// Output of a rank that was received over the control channel.
struct Print {
  std::string whose;  // "1,<rank>", as mpirun has it; "<Pod>/<slot>" of a rank in no world yet
  bool is_stderr = false;
  std::string data;
};
// The result of the job for its Pod's status, before agents learn that it is over.
struct Record {
  control::Verdict verdict;
};
// The last action ever.
struct Finish {
  control::Verdict verdict;
  int exit_code = 0;
};

using Action = std::variant<SendTo, SendToAll, Refuse, Drop, StartMpirun, StopMpirun, Probe, Print,
                            Record, Finish>;
using Actions = std::vector<Action>;

// Why a job fails.
struct Failure {
  std::string reason;
  std::string message;
  int exit_code = 1;
  std::optional<control::RankExit> first{};  // the end that is to blame
};

struct MpirunExit {
  int exit_code = -1;
  int signal = 0;
  std::string start_error;  // it could not be started at all
  std::vector<std::string> last_lines;
};

}  // namespace ringmaster::launcher
