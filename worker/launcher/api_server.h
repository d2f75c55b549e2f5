#pragma once

// The launcher's HTTPS server for the operator (common/control/launcher_api.h): order in, status
// out, the ranks' times as metrics, nothing else. Every connection has deadlines and limits, and
// their number is bounded; the token is compared in constant time. Belongs to the one thread that
// runs the io_context.

#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/control/launcher_api.h"
#include "common/control/tls.h"

namespace boost::asio {
class io_context;
}

namespace ringmaster::launcher {

struct ApiOptions {
  std::string operator_token;
  std::size_t max_order_bytes = 1 << 20;
  std::size_t max_connections = 64;
  int idle_seconds = 60;  // between requests of one connection; each request and answer has 10 s
};

struct ApiHandlers {
  // kConflict: a higher stamp was seen.
  std::function<Result<void>(const control::Order&)> on_order;
  std::function<control::LauncherStatus()> status;
  std::function<std::string()> metrics;  // in Prometheus' text format
};

struct ApiAnswer {
  unsigned code = 200;
  std::string body;
  const char* content_type = "text/plain";
};

// What to answer to one request: pure but for the handlers.
ApiAnswer AnswerApiRequest(const ApiOptions& options, const ApiHandlers& handlers,
                           const std::string& method, const std::string& target,
                           const std::string& authorization, const std::string& body);

class ApiServer {
 public:
  virtual ~ApiServer() = default;
  virtual int port() const = 0;
};

// `tls` outlives the server. Port 0 picks a free one.
Result<std::unique_ptr<ApiServer>> StartApiServer(boost::asio::io_context& io,
                                                  const std::string& address, int port,
                                                  control::TlsContext& tls, ApiOptions options,
                                                  ApiHandlers handlers);

}  // namespace ringmaster::launcher
