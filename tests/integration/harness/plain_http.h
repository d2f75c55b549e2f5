#pragma once

// GET on loopback: the operator's ports, Prometheus.

#include <string>

namespace ringmaster::testing {

struct PlainAnswer {
  int status = 0;  // 0: nobody answered
  std::string text;
};

// `path` with its query, encoded.
PlainAnswer PlainGet(int port, const std::string& path);

// Over TLS, whatever the certificate; with a bearer token, unless it is empty.
PlainAnswer TlsGet(int port, const std::string& path, const std::string& token = {});

// What is shown to who connects there over TLS, in PEM; empty when nobody answers.
std::string TlsCertificateOf(int port);

// For a query's value.
std::string PercentEncode(const std::string& text);

}  // namespace ringmaster::testing
