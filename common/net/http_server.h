#pragma once

// A small HTTP/1.1 server, plain or over TLS, that is safe for untrusted clients: it limits
// headers, bodies, connections and times, and closes connections without credentials first. Serves
// the launcher's API and the operator's probes and metrics. Runs on the one thread of its
// io_context. Serves no files and does no routing.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"

namespace boost::asio {
class io_context;
namespace ssl {
class context;
}
}  // namespace boost::asio

namespace ringmaster::net {

struct HttpRequest {
  std::string method{};
  std::string target{};  // path and query, as the client sent them
  std::string authorization{};
  std::string body{};
};

struct HttpAnswer {
  unsigned code = 200;
  std::string body{};
  std::string content_type = "text/plain; charset=utf-8";
};

struct HttpServerOptions {
  std::size_t max_header_bytes = 16 << 10;
  std::size_t max_body_bytes = 0;
  // At the limit, the server closes the oldest connection without credentials, else the oldest.
  std::size_t max_connections = 64;
  // The time limit for a header, from the start of the connection or the previous answer. Also the
  // limit for a body and for an answer.
  std::chrono::seconds limit{5};
  // How long an admitted client may be idle between two requests.
  std::chrono::seconds idle_limit{5};
};

// Call with nullopt to serve the request, or with `refusal` to send that answer and close the
// connection. Call exactly once, on any thread.
using Admit = std::function<void(std::optional<HttpAnswer> refusal)>;

struct HttpHandlers {
  // Called once the header is read, before the body is read; `body` is empty. Null: all requests
  // are served, and no client counts as authenticated. `admit` must not outlive the io_context.
  std::function<void(const HttpRequest& request, Admit admit)> check{};
  // Called on the server's thread; must not block. An exception is answered with 500.
  std::function<HttpAnswer(const HttpRequest& request)> answer{};
};

// Returns a connection's TLS context. Called for each connection, so certificates can change.
using TlsSource = std::function<std::shared_ptr<boost::asio::ssl::context>()>;

// The destructor stops the server. It must run on the server's thread or after that thread's end.
class HttpServer {
 public:
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
};

// Listens on an IP address; port 0 picks a free port. `tls` is null for plain HTTP. Returns
// kUnavailable if the address or port cannot be used.
Result<std::unique_ptr<HttpServer>> StartHttpServer(boost::asio::io_context& io,
                                                    const std::string& address, int port,
                                                    TlsSource tls, HttpServerOptions options,
                                                    HttpHandlers handlers);

}  // namespace ringmaster::net
