#pragma once

// The launcher's HTTPS server for the operator (common/control/launcher_api.h): receives orders and
// serves the status and the ranks' metrics. common/net/http_server.h limits the resources that
// clients can use. Compares the token in constant time before it reads a body. Single-threaded, on
// its io_context.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/control/launcher_api.h"
#include "common/control/tls.h"
#include "common/net/http_server.h"

namespace ringmaster::launcher {

struct ApiOptions {
  std::string operator_token;
  std::size_t max_order_bytes = control::kMaxOrderBytes;
  std::size_t max_connections = 64;
  std::chrono::seconds idle_limit{60};  // maximum time between two requests of the operator
};

struct ApiHandlers {
  // Applies an order. kConflict: an order with a higher stamp was received earlier.
  std::function<Result<void>(const control::Order&)> on_order;
  std::function<control::LauncherStatus()> status;
  std::function<std::string()> metrics;  // returns Prometheus' text format
};

// Returns whether `authorization` contains the operator's token.
bool Trusted(const ApiOptions& options, const std::string& authorization);

// Answers one request of the operator; pure except for the handlers.
net::HttpAnswer AnswerApiRequest(const ApiHandlers& handlers, const net::HttpRequest& request);

// `tls` must outlive the server. Port 0 selects a free port.
Result<std::unique_ptr<net::HttpServer>> StartApiServer(boost::asio::io_context& io,
                                                        const std::string& address, int port,
                                                        control::TlsContext& tls,
                                                        ApiOptions options, ApiHandlers handlers);

}  // namespace ringmaster::launcher
