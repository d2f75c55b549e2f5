#pragma once

// Sends GET requests to loopback ports: those of the operator and of Prometheus.

#include <string>

namespace ringmaster::testing {

struct PlainAnswer {
  int status = 0;  // 0: no answer
  std::string text;
};

// `path` includes its query, percent-encoded.
PlainAnswer PlainGet(int port, const std::string& path);

// Uses TLS without checking the certificate, and sends the bearer token unless it is empty.
PlainAnswer TlsGet(int port, const std::string& path, const std::string& token = {});

// Returns the TLS certificate of a server as PEM; empty if there is no answer.
std::string TlsCertificateOf(int port);

// Encodes the value of a query parameter.
std::string PercentEncode(const std::string& text);

}  // namespace ringmaster::testing
