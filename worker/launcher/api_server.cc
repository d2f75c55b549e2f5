#include "worker/launcher/api_server.h"

#include <optional>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include "common/control/secrets.h"
#include "worker/launcher/status_size.h"

namespace ringmaster::launcher {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::seconds kTransferLimit{10};

// What connections need of the server; outlives it.
struct Shared {
  control::TlsContext& tls;
  ApiOptions options;
  ApiHandlers handlers;
  bool stopped = false;
  std::size_t connections = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::shared_ptr<Shared> shared)
      : stream_(std::move(socket), shared->tls.asio()), shared_(std::move(shared)) {
    ++shared_->connections;
  }
  ~Connection() { --shared_->connections; }

  void Run() {
    beast::get_lowest_layer(stream_).expires_after(kTransferLimit);
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [self = shared_from_this()](const error_code& error) {
                              if (!error) self->Read();
                            });
  }

 private:
  void Read() {
    parser_.emplace();
    parser_->body_limit(shared_->options.max_order_bytes);
    parser_->header_limit(8192);
    beast::get_lowest_layer(stream_).expires_after(
        std::chrono::seconds(shared_->options.idle_seconds));
    http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](const error_code& error, std::size_t) { self->OnRead(error); });
  }

  void OnRead(const error_code& error) {
    if (shared_->stopped) return;
    if (error == http::error::body_limit) return Write({413, "the order is too large\n"}, false);
    if (error == http::error::header_limit) return Write({431, "the header is too large\n"}, false);
    if (error) return;  // gone, too slow, or no HTTP
    const auto& request = parser_->get();
    const auto view = [](const auto& text) { return std::string(text.data(), text.size()); };
    Write(AnswerApiRequest(shared_->options, shared_->handlers, view(request.method_string()),
                           view(request.target()), view(request[http::field::authorization]),
                           request.body()),
          request.keep_alive());
  }

  void Write(const ApiAnswer& answer, bool keep_alive) {
    response_ = {};
    response_.result(answer.code);
    response_.version(11);
    response_.set(http::field::content_type, answer.content_type);
    if (answer.code == 401) response_.set(http::field::www_authenticate, "Bearer");
    response_.keep_alive(keep_alive);
    response_.body() = answer.body;
    response_.prepare_payload();
    beast::get_lowest_layer(stream_).expires_after(kTransferLimit);
    http::async_write(
        stream_, response_,
        [self = shared_from_this(), keep_alive](const error_code& error, std::size_t) {
          if (!error && keep_alive && !self->shared_->stopped) self->Read();
        });
  }

  beast::ssl_stream<beast::tcp_stream> stream_;
  std::shared_ptr<Shared> shared_;
  beast::flat_buffer buffer_{64 << 10};
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
};

class BeastServer final : public ApiServer, public std::enable_shared_from_this<BeastServer> {
 public:
  BeastServer(asio::io_context& io, std::shared_ptr<Shared> shared)
      : acceptor_(io), retry_(io), shared_(std::move(shared)) {}

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
    return Error{ErrorKind::kUnavailable,
                 "while listening on port " + std::to_string(port) + ": " + error.message()};
  }

  void Accept() {
    acceptor_.async_accept(
        [self = shared_from_this()](const error_code& error, tcp::socket socket) {
          if (self->shared_->stopped) return;
          if (error) return self->Retry();
          // Beyond the limit the newest goes: the operator holds a few at most, and retries.
          if (self->shared_->connections < self->shared_->options.max_connections) {
            std::make_shared<Connection>(std::move(socket), self->shared_)->Run();
          }
          self->Accept();
        });
  }

  void Stop() {
    error_code ignored;
    shared_->stopped = true;
    acceptor_.close(ignored);
    retry_.cancel();
  }

  int port() const override { return port_; }

 private:
  void Retry() {
    retry_.expires_after(std::chrono::milliseconds(50));
    retry_.async_wait([self = shared_from_this()](const error_code&) {
      if (!self->shared_->stopped) self->Accept();
    });
  }

  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  std::shared_ptr<Shared> shared_;
  int port_ = 0;
};

class ServerHandle final : public ApiServer {
 public:
  explicit ServerHandle(std::shared_ptr<BeastServer> server) : server_(std::move(server)) {}
  ~ServerHandle() override { server_->Stop(); }
  int port() const override { return server_->port(); }

 private:
  std::shared_ptr<BeastServer> server_;
};

}  // namespace

ApiAnswer AnswerApiRequest(const ApiOptions& options, const ApiHandlers& handlers,
                           const std::string& method, const std::string& target,
                           const std::string& authorization, const std::string& body) {
  constexpr std::string_view kScheme = "Bearer ";
  const bool bearer = authorization.rfind(kScheme, 0) == 0;
  if (!control::SecretsEqual(bearer ? authorization.substr(kScheme.size()) : "",
                             options.operator_token)) {
    return {401, ""};
  }
  const bool order = target == "/v1/order";
  const bool metrics = target == "/metrics";
  if (!order && !metrics && target != "/v1/status") return {404, "no such path\n"};
  if (method != (order ? "PUT" : "GET")) return {405, "no such method here\n"};
  if (order) {
    const auto decoded = control::DecodeOrder(body);
    if (!decoded.ok()) return {400, decoded.error().message + "\n"};
    const auto taken = handlers.on_order(*decoded);
    if (!taken.ok()) {
      return {taken.error().kind == ErrorKind::kConflict ? 409U : 500U,
              taken.error().message + "\n"};
    }
  }
  if (metrics) return {200, handlers.metrics(), "text/plain; version=0.0.4; charset=utf-8"};
  return {200, EncodeWithin(handlers.status()), "application/json"};
}

Result<std::unique_ptr<ApiServer>> StartApiServer(asio::io_context& io, const std::string& address,
                                                  int port, control::TlsContext& tls,
                                                  ApiOptions options, ApiHandlers handlers) {
  auto shared = std::make_shared<Shared>(Shared{tls, std::move(options), std::move(handlers)});
  auto server = std::make_shared<BeastServer>(io, std::move(shared));
  if (Result<void> opened = server->Open(address, port); !opened.ok()) return opened.error();
  server->Accept();
  return std::unique_ptr<ApiServer>(std::make_unique<ServerHandle>(std::move(server)));
}

}  // namespace ringmaster::launcher
