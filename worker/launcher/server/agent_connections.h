#pragma once

// The port that agents connect to. It tracks which connections have identified themselves: a new
// connection has kHelloLimit to send a short hello. If too many have not sent a hello, the oldest
// of them is closed. Handlers process the messages. Used by Launcher, on its thread.

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/control/line_connection.h"
#include "worker/launcher/model/actions.h"

namespace ringmaster::launcher {

class AgentConnections {
 public:
  static constexpr std::chrono::seconds kHelloLimit{5};
  static constexpr std::size_t kMaxPending = 1024;  // connections that have not sent a hello

  struct Handlers {
    std::function<void(ConnectionId, const control::AgentHello&)> on_hello;
    // Called for each line after the hello.
    std::function<void(ConnectionId, const control::Message&)> on_message;
    // `greeted`: whether the connection had sent its hello.
    std::function<void(ConnectionId, bool greeted)> on_closed;
  };

  // `clock` must outlive this object.
  AgentConnections(const Clock& clock, Handlers handlers)
      : clock_(clock), handlers_(std::move(handlers)) {}

  // kUnavailable: the port is taken. `io` and `tls` must outlive this object.
  Result<void> Listen(boost::asio::io_context& io, int port, control::TlsContext& tls);
  // REQUIRES: Listen() succeeded.
  int port() const { return listener_->port(); }

  // Adds a connection that Listen() accepted. Tests use it to add connections.
  void Add(std::shared_ptr<control::LineConnection> connection);
  // Closes connections that have sent no hello within kHelloLimit.
  void CloseSilent(Clock::Time now);

  // The following functions have no effect on a closed connection.
  //
  // Call for an agent of this job. Raises the line limit of its connection.
  void Admit(ConnectionId id);
  void Send(ConnectionId id, const control::Message& message);
  void SendToAll(const std::vector<ConnectionId>& ids, const control::Message& message);
  // Sends the reason, then closes the connection.
  void Refuse(ConnectionId id, const std::string& reason);
  void Close(ConnectionId id, const std::string& reason);

  // Closes every connection once its queued messages are sent. Closes new connections at once.
  void End(const std::string& reason);
  bool empty() const { return peers_.empty(); }

 private:
  struct Peer {
    std::shared_ptr<control::LineConnection> connection;
    Clock::Time since;
    bool greeted = false;
  };

  void OnMessage(ConnectionId id, const control::Message& message);
  void OnClosed(ConnectionId id, const std::string& reason);
  std::shared_ptr<control::LineConnection> Find(ConnectionId id) const;

  const Clock& clock_;
  const Handlers handlers_;
  std::unique_ptr<control::LineListener> listener_;
  std::map<ConnectionId, Peer> peers_;
  std::set<ConnectionId> pending_;  // connections without a hello, oldest first
  ConnectionId next_id_ = 1;
  std::string end_reason_;  // empty until End()
};

}  // namespace ringmaster::launcher
