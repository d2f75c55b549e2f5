#pragma once

// The operator's own HTTP port: a few read-only GETs (/healthz, /readyz, /metrics) for the kubelet
// and Prometheus. No TLS, no clients from outside the cluster: a NetworkPolicy keeps the port
// private. The only user of cpprestsdk's server.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace ringmaster::http {

struct AdminAnswer {
  int status = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
};

// Paths and what answers them. Called on pool threads, concurrently: must answer from memory, at
// once.
using AdminPages = std::map<std::string, std::function<AdminAnswer()>>;

class AdminServer {
 public:
  // Listens on "<IPv4 address or host name>:<port>". kInvalid for an address that cannot be bound;
  // a wildcard must be written 0.0.0.0 (the library takes other forms for loopback).
  static Result<std::unique_ptr<AdminServer>> Start(const std::string& address, AdminPages pages);

  virtual ~AdminServer() = default;  // stops listening
};

}  // namespace ringmaster::http
