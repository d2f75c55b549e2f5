#pragma once

// The agent's unix socket for the attach processes and ranks of this worker. Accepts only processes
// of the same user, which the kernel reports. The first line of a connection tells an attach
// process from a rank. Passes messages to the handlers. Single-threaded.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/result.h"
#include "common/control/line_connection.h"
#include "common/control/messages.h"

namespace ringmaster::agent {

using PeerId = std::int64_t;  // one per connection, never reused

class LocalPeers {
 public:
  struct Handlers {
    // Returns the reason to refuse a peer, or an empty text to admit it.
    std::function<std::string(PeerId, const control::RankHello&, int pid)> on_rank;
    std::function<void(PeerId, const control::AttachHello&, int pid)> on_attach;
    std::function<void(PeerId, control::Message)> on_message;  // of admitted peers
    std::function<void(PeerId)> on_disconnected;               // called once for each admitted peer
    std::function<void(PeerId)> on_drained;  // called when the kernel has all messages
  };

  // `io` must outlive this object.
  LocalPeers(boost::asio::io_context& io, Handlers handlers);
  ~LocalPeers();

  Result<void> Listen(const std::string& socket_path);

  // Does nothing for a peer that is gone.
  void Send(PeerId peer, const control::Message& message);
  // Closes the connection after all queued messages are sent.
  void Close(PeerId peer, const std::string& reason);
  std::size_t QueuedBytes(PeerId peer) const;

 private:
  struct Peer {
    std::shared_ptr<control::LineConnection> connection;
    std::unique_ptr<boost::asio::steady_timer> hello_limit;  // time limit for the first line
    bool admitted = false;
    int pid = -1;
  };

  void OnAccepted(const std::shared_ptr<control::LineConnection>& connection);
  void OnMessage(PeerId id, control::Message message);
  void OnClosed(PeerId id);

  boost::asio::io_context& io_;
  const Handlers handlers_;
  std::unique_ptr<control::LineListener> listener_;
  std::map<PeerId, Peer> peers_;
  PeerId next_ = 1;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ringmaster::agent
