#pragma once

// A real Prometheus on loopback. It scrapes one target every second, configured like the chart's
// ServiceMonitor, and evaluates rules every second. Built by `deploy/local/build.sh prometheus`.

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "tests/integration/harness/process.h"

namespace ringmaster::testing {

class PrometheusServer {
 public:
  // Returns when it serves. Prometheus sends the token to its target, unless the token is empty.
  static Result<std::unique_ptr<PrometheusServer>> Start(int target_port,
                                                         const std::string& rule_file,
                                                         const std::string& token);

  // Returns the field "data" of an HTTP API answer; null if the request failed. `path` follows
  // "/api/v1/".
  nlohmann::json Get(const std::string& path) const;
  // Returns the error of a query that Prometheus rejects; empty for a valid query.
  std::string Refusal(const std::string& path) const;
  // Returns the samples of an instant query: [{"metric": …, "value": …}]; null if it is rejected.
  nlohmann::json Query(const std::string& expression) const;

  std::string Log() const { return process_->Log(); }

 private:
  PrometheusServer() = default;

  TemporaryDirectory directory_{MemoryFolder()};
  int port_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace ringmaster::testing
