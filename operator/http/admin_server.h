#pragma once

// A port of the operator that serves a few read-only pages from a separate thread: /healthz and
// /readyz for the kubelet, or /metrics for Prometheus. common/net/http_server.h bounds the
// resources that clients can use.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/net/http_server.h"

namespace ringmaster::http {

// Paths and their handlers, called on the server's thread; they must not block.
using AdminPages = std::map<std::string, std::function<net::HttpAnswer()>>;

struct AdminProtection {
  net::TlsSource tls{};  // null: plain HTTP
  // Reviews the bearer token of a client that requests a page, and calls back once, on any thread.
  // Null: no token is required.
  std::function<void(const std::string& token, net::Admit admit)> judge{};
  // The idle timeout of admitted clients.
  std::chrono::seconds idle_limit{5};
};

class AdminServer {
 public:
  // Listens on "<address or host name>:<port>", with IPv6 addresses in brackets, or on ":<port>":
  // all addresses, of both IP families if the machine has IPv6. Returns kInvalid if that fails.
  static Result<std::unique_ptr<AdminServer>> Start(const std::string& address, AdminPages pages,
                                                    AdminProtection protection = {});

  virtual ~AdminServer() = default;  // stops listening; do not call any `admit` afterwards
};

}  // namespace ringmaster::http
