#include "worker/launcher/server/api_server.h"

#include <utility>

#include <boost/asio/ssl/context.hpp>

#include "common/control/secrets.h"
#include "worker/launcher/server/status_size.h"

namespace ringmaster::launcher {

bool Trusted(const ApiOptions& options, const std::string& authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  const bool bearer = authorization.rfind(kScheme, 0) == 0;
  return control::SecretsEqual(bearer ? authorization.substr(kScheme.size()) : "",
                               options.operator_token);
}

net::HttpAnswer AnswerApiRequest(const ApiHandlers& handlers, const net::HttpRequest& request) {
  const bool order = request.target == "/v1/order";
  const bool metrics = request.target == "/metrics";
  if (!order && !metrics && request.target != "/v1/status") return {404, "path not found\n"};
  if (request.method != (order ? "PUT" : "GET")) return {405, "method not allowed\n"};
  if (order) {
    const auto decoded = control::DecodeOrder(request.body);
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

Result<std::unique_ptr<net::HttpServer>> StartApiServer(boost::asio::io_context& io,
                                                        const std::string& address, int port,
                                                        control::TlsContext& tls,
                                                        ApiOptions options, ApiHandlers handlers) {
  const net::HttpServerOptions limits{.max_body_bytes = options.max_order_bytes,
                                      .max_connections = options.max_connections,
                                      .idle_limit = options.idle_limit};
  // The launcher's certificate never changes and outlives the server.
  const std::shared_ptr<boost::asio::ssl::context> context(std::shared_ptr<void>(), &tls.asio());
  return net::StartHttpServer(
      io, address, port, [context] { return context; }, limits,
      {.check =
           [options](const net::HttpRequest& request, const net::Admit& admit) {
             if (Trusted(options, request.authorization)) return admit({});
             admit(net::HttpAnswer{401, ""});
           },
       .answer =
           [handlers = std::move(handlers)](const net::HttpRequest& request) {
             return AnswerApiRequest(handlers, request);
           }});
}

}  // namespace ringmaster::launcher
