#pragma once

// A small HTTP/1.1 server, plain or over TLS, that is safe for untrusted clients: it bounds
// headers, bodies, connections and times, and closes connections without credentials first. Serves
// the launcher's API and the operator's probes and metrics. Runs on the one thread of its
// io_context. Not a client; serves no files and does no routing.

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
  std::string target{};  // as sent: path and query
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
  // One more takes the place of the oldest without credentials; of the oldest, where all have some.
  std::size_t max_connections = 64;
  // From the connection, or the answer before, until a header has come; then for a body, and for an
  // answer.
  std::chrono::seconds limit{5};
  // How long an admitted client may be silent between two requests.
  std::chrono::seconds idle_limit{5};
};

// Decides how to handle a request: without a value it is served; otherwise the refusal is sent and
// the connection closed. Called once, on any thread.
using Admit = std::function<void(std::optional<HttpAnswer> refusal)>;

struct HttpHandlers {
  // Called after the header, before the body is read (`body` is empty). Null: all requests are
  // served, and no client counts as authenticated. No `admit` outlives the io_context.
  std::function<void(const HttpRequest& request, Admit admit)> check{};
  // On the server's thread: answers from memory, at once. What it throws is answered with 500.
  std::function<HttpAnswer(const HttpRequest& request)> answer{};
};

// The context of a new connection's TLS; asked for each, so that a certificate can change.
using TlsSource = std::function<std::shared_ptr<boost::asio::ssl::context>()>;

// Stops at its end, which is on the server's thread, or when that has ended.
class HttpServer {
 public:
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
};

// Listens on an IP address; port 0 picks a free one. `tls` is null for plain HTTP. kUnavailable for
// what cannot be listened on.
Result<std::unique_ptr<HttpServer>> StartHttpServer(boost::asio::io_context& io,
                                                    const std::string& address, int port,
                                                    TlsSource tls, HttpServerOptions options,
                                                    HttpHandlers handlers);

}  // namespace ringmaster::net
