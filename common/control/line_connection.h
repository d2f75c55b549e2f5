#pragma once

// Asynchronous connections that carry one message per line (messages.h), over TLS (agent and
// launcher) or a unix socket (attach, rank and agent). Based on Boost.Asio. Used by the launcher
// and the agent; a trainer uses blocking_line_client.h.
//
// A connection belongs to one io_context, which one thread runs: make all calls from that thread.
// Handlers run on that thread, never inside the call that triggers them. Only SendNow() may block.
//
//   DialTls(io, "10.0.0.1", 8470, *tls, {}, [](Result<std::shared_ptr<LineConnection>> dialled) {
//     if (!dialled.ok()) return Retry(dialled.error());
//     connection = *dialled;
//     connection->Start({.on_message = ..., .on_closed = ...});
//     connection->Send(AgentHello{...});
//   });

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/control/messages.h"
#include "common/control/tls.h"

namespace boost::asio {
class io_context;
}

namespace ringmaster::control {

// The process at the other end of a unix socket, as reported by the kernel.
struct UnixPeer {
  int pid = -1;
  unsigned uid = 0;
};

// A message that is encoded once and sent on many connections.
struct SharedLine {
  explicit SharedLine(const Message& message);

  std::string_view type;
  std::shared_ptr<const std::string> text;  // including its newline
};

// One connection. It exists while a pointer refers to it and, once started, until it is closed.
class LineConnection {
 public:
  struct Handlers {
    std::function<void(Message)> on_message;
    // Called exactly once, whichever side closes. `reason` is for logs. No on_message follows.
    std::function<void(const std::string& reason)> on_closed;
    // Optional. Called when all queued bytes have been passed to the kernel. Use it with
    // queued_bytes() for flow control.
    std::function<void()> on_drained;
  };

  virtual ~LineConnection() = default;

  // Starts reading. REQUIRES: called once.
  virtual void Start(Handlers handlers) = 0;

  // Queues a message, also before Start(). Does nothing on a closed connection. Closes the
  // connection if the queue exceeds max_queued_bytes or the message exceeds the line limit.
  virtual void Send(const Message& message) = 0;

  // Like Send(), but the kernel has the message on return, so that the peer gets it even if this
  // process is then killed. If messages are queued, they come first, and this equals Send(). Only
  // for unix sockets.
  virtual void SendNow(const Message& message) = 0;

  // Like Send(), for a message to many connections, which share one copy of its bytes.
  virtual void SendShared(const SharedLine& line) = 0;

  // Closes at once and drops queued messages.
  virtual void Close(const std::string& reason) = 0;

  // Sends the queued messages, tells the peer that no more messages follow, and closes when the
  // peer has closed too or after one second. Gives up if the peer reads nothing for five seconds.
  // Discards messages that still arrive.
  virtual void Finish(const std::string& reason) = 0;

  // Sets the maximum line length from now on, in both directions. Callers use a lower limit for
  // peers that have not identified themselves.
  virtual void SetMaxLineBytes(std::size_t bytes) = 0;

  virtual bool open() const = 0;
  virtual std::size_t queued_bytes() const = 0;

  // The peer's address and port, or "unix socket".
  virtual const std::string& peer() const = 0;

  // Returns nullopt for a TCP connection, or if the kernel does not report the peer.
  virtual std::optional<UnixPeer> unix_peer() const = 0;
};

struct LineLimits {
  std::size_t max_line_bytes = kMaxLineBytes;
  std::size_t max_queued_bytes = 32 << 20;
};

struct DialOptions {
  std::chrono::milliseconds connect_timeout{100};
  std::chrono::milliseconds handshake_timeout{2000};
  LineLimits limits;
};

using OnDialled = std::function<void(Result<std::shared_ptr<LineConnection>>)>;

// Connects to an IP address and performs the TLS handshake. Host names are not supported, so that
// no DNS query is made. `tls` must outlive the connection.
void DialTls(boost::asio::io_context& io, const std::string& address, int port, TlsContext& tls,
             const DialOptions& options, OnDialled on_dialled);

// Connects to a unix socket.
void DialUnix(boost::asio::io_context& io, const std::string& path, const DialOptions& options,
              OnDialled on_dialled);

struct ListenOptions {
  std::chrono::milliseconds handshake_timeout{5000};
  std::size_t max_handshakes =
      1024;  // unfinished handshakes; when exceeded, the oldest connection is dropped
  LineLimits limits;
};

// Accepts connections until it is destroyed; accepted connections then stay open. Drops a
// connection whose handshake fails.
class LineListener {
 public:
  using OnAccepted = std::function<void(std::shared_ptr<LineConnection>)>;

  virtual ~LineListener() = default;
  virtual int port() const = 0;  // 0 for unix sockets
};

// Listens on an address such as "0.0.0.0", "127.0.0.1" or "::" (both IP families). Port 0 picks a
// free port. kUnavailable if the port is taken. `tls` outlives the listener and its connections.
Result<std::unique_ptr<LineListener>> ListenTls(boost::asio::io_context& io,
                                                const std::string& address, int port,
                                                TlsContext& tls, const ListenOptions& options,
                                                LineListener::OnAccepted on_accepted);

// Listens on a unix socket with mode 0600. Replaces a socket file on which no process
// listens.
Result<std::unique_ptr<LineListener>> ListenUnix(boost::asio::io_context& io,
                                                 const std::string& path,
                                                 const ListenOptions& options,
                                                 LineListener::OnAccepted on_accepted);

}  // namespace ringmaster::control
