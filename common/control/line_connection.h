#pragma once

// Asynchronous connections that carry one message per line (messages.h), over TLS (agent and
// launcher) or a unix socket (attach, rank and agent). Based on Boost.Asio. Used by the launcher
// and the agent; a trainer uses blocking_line_client.h.
//
// A connection belongs to one io_context, which one thread runs: make all calls from that thread.
// Handlers run on it too, but never inside the call that triggers them. No call blocks.
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

// A message that was encoded once.
struct SharedLine {
  explicit SharedLine(const Message& message);

  std::string_view type;
  std::shared_ptr<const std::string> text;  // with its newline
};

// One connection. It lives as long as its pointer is held and, after Start(), until it is closed.
class LineConnection {
 public:
  struct Handlers {
    std::function<void(Message)> on_message;
    // Exactly once, whichever side closed: why, for people. No on_message comes after it.
    std::function<void(const std::string& reason)> on_closed;
    // Optional: everything queued has been given to the kernel. For flow control with
    // queued_bytes().
    std::function<void()> on_drained;
  };

  virtual ~LineConnection() = default;

  // Begins to read. REQUIRES: called once.
  virtual void Start(Handlers handlers) = 0;

  // Queues a message; also before Start(). Does nothing on a closed connection. A queue beyond
  // max_queued_bytes, or a message longer than a line may be, closes the connection.
  virtual void Send(const Message& message) = 0;

  // The same for a message that many connections get: its bytes are kept once for all of them.
  virtual void SendShared(const SharedLine& line) = 0;

  // Closes at once; what is queued is lost.
  virtual void Close(const std::string& reason) = 0;

  // Sends what is queued, tells the peer that nothing more comes, and closes when the peer has
  // closed too or after one second. A peer that reads nothing for five seconds does not get the
  // rest. Messages that still arrive are dropped.
  virtual void Finish(const std::string& reason) = 0;

  // The limit for lines from now on, both ways: it may be lower for peers that have not identified
  // themselves.
  virtual void SetMaxLineBytes(std::size_t bytes) = 0;

  virtual bool open() const = 0;
  virtual std::size_t queued_bytes() const = 0;

  // The peer's address and port, or "unix socket".
  virtual const std::string& peer() const = 0;

  // Nothing for a connection over TCP, or when the kernel cannot say.
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

// Connects to an IP address (no names: nothing here asks DNS) and shakes hands. `tls` outlives the
// connection.
void DialTls(boost::asio::io_context& io, const std::string& address, int port, TlsContext& tls,
             const DialOptions& options, OnDialled on_dialled);

// Connects to a unix socket.
void DialUnix(boost::asio::io_context& io, const std::string& path, const DialOptions& options,
              OnDialled on_dialled);

struct ListenOptions {
  std::chrono::milliseconds handshake_timeout{5000};
  std::size_t max_handshakes =
      1024;  // connections that have not finished theirs; beyond it the oldest goes
  LineLimits limits;
};

// Accepts connections until destroyed; accepted ones live on. A connection that fails its handshake
// is dropped.
class LineListener {
 public:
  using OnAccepted = std::function<void(std::shared_ptr<LineConnection>)>;

  virtual ~LineListener() = default;
  virtual int port() const = 0;  // 0 for unix sockets
};

// Listens on an address ("::" takes both families, "0.0.0.0", "127.0.0.1"); port 0 picks a free
// one. kUnavailable when the port is taken. `tls` outlives the listener and its connections.
Result<std::unique_ptr<LineListener>> ListenTls(boost::asio::io_context& io,
                                                const std::string& address, int port,
                                                TlsContext& tls, const ListenOptions& options,
                                                LineListener::OnAccepted on_accepted);

// Listens on a unix socket with mode 0600; replaces a socket file without a
// listener.
Result<std::unique_ptr<LineListener>> ListenUnix(boost::asio::io_context& io,
                                                 const std::string& path,
                                                 const ListenOptions& options,
                                                 LineListener::OnAccepted on_accepted);

}  // namespace ringmaster::control
