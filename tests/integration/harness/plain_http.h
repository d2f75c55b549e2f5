#pragma once

// GET over plain HTTP on loopback: the operator's admin port, Prometheus.

#include <string>

namespace ringmaster::testing {

struct PlainAnswer {
  int status = 0;  // 0: nobody answered
  std::string text;
};

// `path` with its query, encoded.
PlainAnswer PlainGet(int port, const std::string& path);

// For a query's value.
std::string PercentEncode(const std::string& text);

}  // namespace ringmaster::testing
