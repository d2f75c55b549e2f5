#include "common/net/http_server.h"

#include <algorithm>
#include <exception>
#include <list>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

namespace ringmaster::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kAcceptAgainAfter{50};

class Connection;

// The part of the server that connections use; connections share ownership of it.
struct Shared {
  HttpServerOptions options;
  HttpHandlers handlers;
  bool stopped = false;
  std::list<Connection*> connections{};  // oldest first
};

// One client connection, from accept to close. The pending Asio operations own it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)),
        place_(shared_->connections.insert(shared_->connections.end(), this)) {}
  virtual ~Connection() { Leave(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  virtual void Run() = 0;

  bool admitted() const { return admitted_; }
  // Closes the socket. The pending operations fail, and the last one destroys the connection.
  void Close() {
    const auto kept = std::move(checked_);
    Leave();
    beast::error_code ignored;
    Socket().close(ignored);
  }

 protected:
  virtual tcp::socket& Socket() = 0;

  const HttpServerOptions& options() const { return shared_->options; }
  const HttpHandlers& handlers() const { return shared_->handlers; }
  bool stopped() const { return shared_->stopped || left_; }
  void set_admitted(bool admitted) { admitted_ = admitted; }
  // Keeps the connection alive during a check, because no pending read or write owns it then.
  void AwaitCheck() { checked_ = shared_from_this(); }
  std::shared_ptr<Connection> EndOfCheck() { return std::move(checked_); }

 private:
  void Leave() {
    if (!std::exchange(left_, true)) shared_->connections.erase(place_);
  }

  const std::shared_ptr<Shared> shared_;
  const std::list<Connection*>::iterator place_;
  std::shared_ptr<Connection> checked_;
  bool left_ = false;
  bool admitted_ = false;
};

template <typename Stream>
class StreamConnection : public Connection {
 public:
  StreamConnection(Stream stream, std::shared_ptr<Shared> shared)
      : Connection(std::move(shared)),
        stream_(std::move(stream)),
        // Large enough for a header and the first piece of a body.
        buffer_(options().max_header_bytes + (16 << 10)) {}

  void Run() override { Read(DeadlineOf(options().limit)); }

 protected:
  using Time = std::chrono::steady_clock::time_point;
  static Time DeadlineOf(std::chrono::seconds limit) {
    return std::chrono::steady_clock::now() + limit;
  }

  Stream& stream() { return stream_; }
  beast::tcp_stream& Lowest() { return beast::get_lowest_layer(stream_); }
  tcp::socket& Socket() override { return Lowest().socket(); }
  std::shared_ptr<StreamConnection> Self() {
    return std::static_pointer_cast<StreamConnection>(shared_from_this());
  }

  void Read(Time deadline) {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(options().max_header_bytes));
    parser_->body_limit(options().max_body_bytes);
    Lowest().expires_at(deadline);
    beast::http::async_read_header(
        stream_, buffer_, *parser_,
        [self = Self()](const error_code& error, std::size_t) { self->OnHeader(error); });
  }

 private:
  void OnHeader(const error_code& error) {
    if (stopped()) return;
    if (error) return RefuseUnread(error);
    const auto& head = parser_->get();
    request_ = {.method = std::string(head.method_string()),
                .target = std::string(head.target()),
                .authorization = std::string(head[beast::http::field::authorization]),
                .body = {}};
    keep_alive_ = head.keep_alive();
    if (!handlers().check) return ReadBody();
    AwaitCheck();
    // The checker may call back on another thread, where the connection must not be destroyed.
    handlers().check(request_, [executor = stream_.get_executor(),
                                weak = std::weak_ptr(Self())](std::optional<HttpAnswer> refusal) {
      asio::post(executor, [weak, refusal = std::move(refusal)]() mutable {
        if (const auto self = weak.lock()) self->OnChecked(std::move(refusal));
      });
    });
  }

  void OnChecked(std::optional<HttpAnswer> refusal) {
    const auto kept = EndOfCheck();
    if (stopped()) return;
    set_admitted(!refusal);
    if (refusal) return Write(*std::move(refusal), false);
    ReadBody();
  }

  void ReadNext() { Read(DeadlineOf(admitted() ? options().idle_limit : options().limit)); }

  void ReadBody() {
    Lowest().expires_after(options().limit);
    beast::http::async_read(
        stream_, buffer_, *parser_,
        [self = Self()](const error_code& error, std::size_t) { self->OnRead(error); });
  }

  void OnRead(const error_code& error) {
    if (stopped()) return;
    if (error) return RefuseUnread(error);
    request_.body = std::move(parser_->get().body());
    Write(Answer(), keep_alive_);
  }

  // The connection cannot be reused with unread data in it, so it is closed after the answer.
  void RefuseUnread(const error_code& error) {
    if (error == beast::http::error::header_limit || error == beast::http::error::buffer_overflow) {
      return Write({431, "the header is too large\n"}, false);
    }
    if (error == beast::http::error::body_limit) {
      return Write({413, "the body is too large\n"}, false);
    }
    // Other errors get no response: the client disconnected, was too slow, or does not speak HTTP.
  }

  HttpAnswer Answer() const {
    try {
      return handlers().answer(request_);
    } catch (const std::exception& thrown) {
      return {500, std::string(thrown.what()) + "\n"};
    }
  }

  void Write(HttpAnswer answer, bool keep_alive) {
    response_ = {};
    response_.result(answer.code);
    response_.version(11);
    response_.set(beast::http::field::content_type, answer.content_type);
    if (answer.code == 401) response_.set(beast::http::field::www_authenticate, "Bearer");
    response_.keep_alive(keep_alive);
    response_.body() = std::move(answer.body);
    response_.prepare_payload();
    Lowest().expires_after(options().limit);
    beast::http::async_write(stream_, response_,
                             [self = Self(), keep_alive](const error_code& error, std::size_t) {
                               if (error || self->stopped()) return;
                               if (keep_alive) return self->ReadNext();
                               error_code ignored;
                               self->Socket().shutdown(tcp::socket::shutdown_send, ignored);
                             });
  }

  Stream stream_;
  beast::flat_buffer buffer_;
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  HttpRequest request_;
  bool keep_alive_ = false;
  beast::http::response<beast::http::string_body> response_;
};

using PlainConnection = StreamConnection<beast::tcp_stream>;

class TlsConnection final : public StreamConnection<beast::ssl_stream<beast::tcp_stream>> {
 public:
  TlsConnection(tcp::socket socket, std::shared_ptr<asio::ssl::context> tls,
                std::shared_ptr<Shared> shared)
      : StreamConnection({std::move(socket), *tls}, std::move(shared)), tls_(std::move(tls)) {}

  void Run() override {
    const Time deadline = DeadlineOf(options().limit);
    Lowest().expires_at(deadline);
    stream().async_handshake(asio::ssl::stream_base::server,
                             [this, deadline, self = shared_from_this()](const error_code& error) {
                               if (!error && !stopped()) Read(deadline);
                             });
  }

 private:
  const std::shared_ptr<asio::ssl::context> tls_;
};

class BeastServer final : public std::enable_shared_from_this<BeastServer> {
 public:
  BeastServer(asio::io_context& io, TlsSource tls, std::shared_ptr<Shared> shared)
      : acceptor_(io), retry_(io), tls_(std::move(tls)), shared_(std::move(shared)) {}

  Result<void> Open(const std::string& address, int port) {
    error_code error;
    const auto ip = asio::ip::make_address(address, error);
    const tcp::endpoint endpoint(ip, static_cast<unsigned short>(port));
    if (!error) acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error && ip.is_v6()) acceptor_.set_option(asio::ip::v6_only(false), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    if (!error) return {};
    return Error{ErrorKind::kUnavailable, "while listening on " + address + ", port " +
                                              std::to_string(port) + ": " + error.message()};
  }

  void Accept() {
    acceptor_.async_accept(
        [self = shared_from_this()](const error_code& error, tcp::socket socket) {
          if (self->shared_->stopped) return;
          if (error) return self->AcceptLater();
          self->MakeRoom();
          self->Serve(std::move(socket));
          self->Accept();
        });
  }

  void Stop() {
    shared_->stopped = true;
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    while (!shared_->connections.empty()) shared_->connections.front()->Close();
  }

  int port() const { return port_; }

 private:
  void MakeRoom() {
    auto& connections = shared_->connections;
    if (connections.size() < shared_->options.max_connections) return;
    const auto stranger = std::find_if(connections.begin(), connections.end(),
                                       [](const Connection* c) { return !c->admitted(); });
    (stranger != connections.end() ? *stranger : connections.front())->Close();
  }

  void Serve(tcp::socket socket) {
    if (!tls_) {
      std::make_shared<PlainConnection>(beast::tcp_stream(std::move(socket)), shared_)->Run();
    } else if (auto context = tls_()) {
      std::make_shared<TlsConnection>(std::move(socket), std::move(context), shared_)->Run();
    }
  }

  // Tries again later after accept has failed, for example because no file descriptor is free.
  void AcceptLater() {
    retry_.expires_after(kAcceptAgainAfter);
    retry_.async_wait([self = shared_from_this()](const error_code&) {
      if (!self->shared_->stopped) self->Accept();
    });
  }

  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  const TlsSource tls_;
  const std::shared_ptr<Shared> shared_;
  int port_ = 0;
};

class ServerHandle final : public HttpServer {
 public:
  explicit ServerHandle(std::shared_ptr<BeastServer> server) : server_(std::move(server)) {}
  ~ServerHandle() override { server_->Stop(); }
  int port() const override { return server_->port(); }

 private:
  const std::shared_ptr<BeastServer> server_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> StartHttpServer(asio::io_context& io,
                                                    const std::string& address, int port,
                                                    TlsSource tls, HttpServerOptions options,
                                                    HttpHandlers handlers) {
  auto shared = std::make_shared<Shared>(Shared{options, std::move(handlers)});
  auto server = std::make_shared<BeastServer>(io, std::move(tls), std::move(shared));
  if (Result<void> opened = server->Open(address, port); !opened.ok()) return opened.error();
  server->Accept();
  return std::unique_ptr<HttpServer>(std::make_unique<ServerHandle>(std::move(server)));
}

}  // namespace ringmaster::net
