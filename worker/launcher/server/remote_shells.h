#pragma once

// The unix socket of ringmaster-rsh, through which mpirun reaches hosts without sshd. Each
// connection requests one command on one host; the class passes the request to the host's agent,
// and the output back. It accepts only processes of the same user (as reported by the kernel), only
// hosts of the running mpirun, and one command at a time per host. Used by Launcher, on its thread.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "common/base/result.h"
#include "common/control/line_connection.h"
#include "common/control/messages.h"
#include "worker/launcher/model/actions.h"

namespace ringmaster::launcher {

class RemoteShells {
 public:
  using Send = std::function<void(ConnectionId agent, const control::Message&)>;

  explicit RemoteShells(Send send) : send_(std::move(send)) {}

  // `io` must outlive this object.
  Result<void> Listen(boost::asio::io_context& io, const std::string& socket_path);

  // Call when mpirun starts. Sets the hosts that mpirun may reach, by their names in the hostfile,
  // and ends the commands of the previous mpirun.
  void Begin(std::map<std::string, ConnectionId> hosts);
  // Call when mpirun has ended. Makes all hosts unreachable and ends running commands.
  void End() { Begin({}); }

  // Handles an agent's message about its commands. Returns false for other messages.
  bool OnMessage(ConnectionId agent, const control::Message& message);
  void OnAgentDisconnected(ConnectionId agent);

  // Adds a connection that Listen() accepted. Tests use it to add connections.
  void Add(std::shared_ptr<control::LineConnection> connection);

 private:
  struct Shell {
    std::shared_ptr<control::LineConnection> connection;
    std::string host;        // empty: not known yet
    ConnectionId agent = 0;  // agent that runs its command; 0: none
  };

  void OnHello(int64_t id, const control::Message& message);
  void OnClosed(int64_t id);
  // Sends the reason why the command cannot run or has ended.
  void Refuse(Shell& shell, const std::string& reason);
  // Returns the connection whose command this agent runs, or null.
  Shell* Find(ConnectionId agent, int64_t id);

  const Send send_;
  std::unique_ptr<control::LineListener> listener_;
  std::map<std::string, ConnectionId> hosts_;
  std::map<int64_t, Shell> shells_;
  int64_t next_id_ = 1;
};

}  // namespace ringmaster::launcher
