#include "common/control/line_connection.h"

#include <cstring>
#include <list>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>

#include "common/control/line_stream.h"

namespace ringmaster::control {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using local = asio::local::stream_protocol;
using TlsStream = asio::ssl::stream<tcp::socket>;
using boost::system::error_code;

std::string PeerName(const tcp::socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return "unknown peer";
  return endpoint.address().to_string() + ":" + std::to_string(endpoint.port());
}

Error Unavailable(const std::string& doing, const error_code& error) {
  const bool refused = error == asio::error::timed_out || error == asio::error::operation_aborted;
  return Error{refused ? ErrorKind::kTimeout : ErrorKind::kUnavailable,
               "while " + doing + ": " + (refused ? "timed out" : error.message())};
}

// One connection attempt over TCP and TLS; its handlers own it.
class TlsDial : public std::enable_shared_from_this<TlsDial> {
 public:
  TlsDial(asio::io_context& io, TlsContext& tls, const DialOptions& options, OnDialled on_dialled)
      : stream_(io, tls.asio()), timer_(io), options_(options), on_dialled_(std::move(on_dialled)) {
    SSL_set_tlsext_host_name(stream_.native_handle(), tls.server_name().c_str());
  }

  void Run(const std::string& address, int port) {
    name_ = address + ":" + std::to_string(port);
    error_code error;
    const auto ip = asio::ip::make_address(address, error);
    if (error) {
      asio::post(stream_.get_executor(), [self = shared_from_this()] {
        self->End(Error{ErrorKind::kInvalid, "while connecting to " + self->name_ +
                                                 ": the address is not an IP address"});
      });
      return;
    }
    Limit(options_.connect_timeout);
    stream_.next_layer().async_connect(
        tcp::endpoint(ip, static_cast<unsigned short>(port)),
        [self = shared_from_this()](const error_code& e) { self->OnConnected(e); });
  }

 private:
  void OnConnected(const error_code& error) {
    if (error) return End(Unavailable("dialling " + name_, error));
    error_code ignored;
    stream_.next_layer().set_option(tcp::no_delay(true), ignored);
    Limit(options_.handshake_timeout);
    stream_.async_handshake(
        asio::ssl::stream_base::client,
        [self = shared_from_this()](const error_code& e) { self->OnHandshake(e); });
  }

  void OnHandshake(const error_code& error) {
    if (error) return End(Unavailable("performing the TLS handshake with " + name_, error));
    timer_.cancel();
    End(std::shared_ptr<LineConnection>(
        std::make_shared<LineStream<TlsStream>>(std::move(stream_), name_, options_.limits)));
  }

  void Limit(std::chrono::milliseconds timeout) {
    timer_.expires_after(timeout);
    timer_.async_wait([weak = weak_from_this()](const error_code& error) {
      const auto self = weak.lock();
      error_code ignored;
      if (!error && self) self->stream_.lowest_layer().close(ignored);
    });
  }

  void End(Result<std::shared_ptr<LineConnection>> result) {
    if (const auto on_dialled = std::exchange(on_dialled_, nullptr)) on_dialled(std::move(result));
  }

  TlsStream stream_;
  asio::steady_timer timer_;
  const DialOptions options_;
  OnDialled on_dialled_;
  std::string name_;
};

// Accepts connections of any protocol until stopped. Handlers share ownership, so that an accept
// that completes after the listener is destroyed finds the acceptor stopped.
template <typename Protocol>
class Acceptor : public std::enable_shared_from_this<Acceptor<Protocol>> {
 public:
  using Socket = typename Protocol::socket;
  using OnSocket = std::function<void(Socket)>;

  explicit Acceptor(asio::io_context& io) : acceptor(io), retry_(io) {}

  void Run(OnSocket on_socket) {
    on_socket_ = std::move(on_socket);
    Next();
  }

  void Stop() {
    error_code ignored;
    on_socket_ = nullptr;
    acceptor.close(ignored);
    retry_.cancel();
  }

  typename Protocol::acceptor acceptor;

 private:
  void Next() {
    acceptor.async_accept(
        [self = this->shared_from_this()](const error_code& error, Socket socket) {
          if (!self->on_socket_) return;
          if (error) return self->Retry();
          self->on_socket_(std::move(socket));
          if (self->on_socket_) self->Next();
        });
  }

  // Descriptors or memory are exhausted: connections wait in the backlog until they are available.
  void Retry() {
    retry_.expires_after(std::chrono::milliseconds(50));
    retry_.async_wait([self = this->shared_from_this()](const error_code&) {
      if (self->on_socket_) self->Next();
    });
  }

  OnSocket on_socket_;  // empty once stopped
  asio::steady_timer retry_;
};

class TlsListener final : public LineListener {
 public:
  TlsListener(asio::io_context& io, TlsContext& tls, const ListenOptions& options,
              OnAccepted on_accepted)
      : accepting_(std::make_shared<Acceptor<tcp>>(io)),
        shared_(std::make_shared<Shared>(Shared{tls, options, std::move(on_accepted)})) {}
  ~TlsListener() override {
    accepting_->Stop();
    shared_->on_accepted = nullptr;
  }

  Result<void> Open(const std::string& address, int port) {
    error_code error;
    const auto ip = asio::ip::make_address(address, error);
    if (error) return Error{ErrorKind::kInvalid, "'" + address + "' is not a valid listen address"};
    const tcp::endpoint endpoint(ip, static_cast<unsigned short>(port));
    auto& acceptor = accepting_->acceptor;
    if (!error) acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error && ip.is_v6()) acceptor.set_option(asio::ip::v6_only(false), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) return Unavailable("listening on port " + std::to_string(port), error);
    port_ = acceptor.local_endpoint(error).port();
    accepting_->Run([shared = shared_](tcp::socket socket) { Accept(shared, std::move(socket)); });
    return {};
  }

  int port() const override { return port_; }

 private:
  struct Handshake {
    Handshake(tcp::socket socket, TlsContext& tls)
        : stream(std::move(socket), tls.asio()), timer(stream.get_executor()) {}

    void Abandon() {
      error_code ignored;
      stream.lowest_layer().close(ignored);
    }

    TlsStream stream;
    asio::steady_timer timer;
    std::list<Handshake*>::iterator place;
    bool out = false;  // whether it was removed from the list
  };

  struct Shared {
    TlsContext& tls;
    ListenOptions options;
    OnAccepted on_accepted;              // empty once the listener is destroyed
    std::list<Handshake*> handshakes{};  // oldest first
  };

  static void Accept(const std::shared_ptr<Shared>& shared, tcp::socket socket) {
    // An agent's handshake is short, so the oldest connection is closed to make room.
    if (shared->handshakes.size() >= shared->options.max_handshakes) {
      shared->handshakes.front()->out = true;
      shared->handshakes.front()->Abandon();
      shared->handshakes.pop_front();
    }
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const std::string peer = PeerName(socket);
    const auto handshake = std::make_shared<Handshake>(std::move(socket), shared->tls);
    handshake->place = shared->handshakes.insert(shared->handshakes.end(), handshake.get());
    handshake->timer.expires_after(shared->options.handshake_timeout);
    handshake->timer.async_wait([weak = std::weak_ptr(handshake)](const error_code& stopped) {
      const auto late = weak.lock();
      if (!stopped && late) late->Abandon();
    });
    handshake->stream.async_handshake(
        asio::ssl::stream_base::server, [shared, handshake, peer](const error_code& error) {
          if (!handshake->out) shared->handshakes.erase(handshake->place);
          handshake->timer.cancel();
          if (error || !shared->on_accepted) return;
          shared->on_accepted(std::make_shared<LineStream<TlsStream>>(
              std::move(handshake->stream), peer, shared->options.limits));
        });
  }

  std::shared_ptr<Acceptor<tcp>> accepting_;
  std::shared_ptr<Shared> shared_;
  int port_ = 0;
};

class UnixListener final : public LineListener {
 public:
  UnixListener(asio::io_context& io, std::string path, const ListenOptions& options,
               OnAccepted on_accepted)
      : accepting_(std::make_shared<Acceptor<local>>(io)),
        path_(std::move(path)),
        options_(options),
        on_accepted_(std::move(on_accepted)) {}
  ~UnixListener() override {
    accepting_->Stop();
    if (bound_) ::unlink(path_.c_str());
  }

  Result<void> Open() {
    if (path_.size() >= sizeof(sockaddr_un::sun_path)) {
      return Error{ErrorKind::kInvalid, "the socket path " + path_ + " is longer than 107 bytes"};
    }
    error_code error;
    auto& acceptor = accepting_->acceptor;
    ::unlink(path_.c_str());
    acceptor.open(local(), error);
    if (!error) acceptor.bind(local::endpoint(path_), error);
    // The directory is already private; the mode also protects a socket in a test's directory.
    if (!error && ::chmod(path_.c_str(), 0600) != 0) {
      error = error_code(errno, boost::system::system_category());
    }
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) return Unavailable("listening on " + path_, error);
    bound_ = true;
    accepting_->Run([this](local::socket socket) {
      on_accepted_(std::make_shared<LineStream<local::socket>>(std::move(socket), "unix socket",
                                                               options_.limits));
    });
    return {};
  }

  int port() const override { return 0; }

 private:
  std::shared_ptr<Acceptor<local>> accepting_;
  const std::string path_;
  const ListenOptions options_;
  OnAccepted on_accepted_;
  bool bound_ = false;
};

}  // namespace

SharedLine::SharedLine(const Message& message)
    : type(TypeName(message)), text(std::make_shared<const std::string>(Encode(message) + "\n")) {}

void DialTls(asio::io_context& io, const std::string& address, int port, TlsContext& tls,
             const DialOptions& options, OnDialled on_dialled) {
  std::make_shared<TlsDial>(io, tls, options, std::move(on_dialled))->Run(address, port);
}

void DialUnix(asio::io_context& io, const std::string& path, const DialOptions& options,
              OnDialled on_dialled) {
  // A unix socket connects or fails immediately, so there is nothing to wait for.
  local::socket socket(io);
  error_code error;
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    error = asio::error::name_too_long;
  } else {
    socket.connect(local::endpoint(path), error);
  }
  asio::post(io, [path, error, limits = options.limits, on_dialled = std::move(on_dialled),
                  socket = std::make_shared<local::socket>(std::move(socket))]() mutable {
    if (error) return on_dialled(Unavailable("connecting to " + path, error));
    on_dialled(std::shared_ptr<LineConnection>(
        std::make_shared<LineStream<local::socket>>(std::move(*socket), "unix socket", limits)));
  });
}

Result<std::unique_ptr<LineListener>> ListenTls(asio::io_context& io, const std::string& address,
                                                int port, TlsContext& tls,
                                                const ListenOptions& options,
                                                LineListener::OnAccepted on_accepted) {
  auto listener = std::make_unique<TlsListener>(io, tls, options, std::move(on_accepted));
  if (Result<void> opened = listener->Open(address, port); !opened.ok()) return opened.error();
  return std::unique_ptr<LineListener>(std::move(listener));
}

Result<std::unique_ptr<LineListener>> ListenUnix(asio::io_context& io, const std::string& path,
                                                 const ListenOptions& options,
                                                 LineListener::OnAccepted on_accepted) {
  auto listener = std::make_unique<UnixListener>(io, path, options, std::move(on_accepted));
  if (Result<void> opened = listener->Open(); !opened.ok()) return opened.error();
  return std::unique_ptr<LineListener>(std::move(listener));
}

}  // namespace ringmaster::control
