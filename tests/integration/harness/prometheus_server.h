#pragma once

// A real Prometheus on loopback that scrapes one target each second, as the chart's ServiceMonitor
// tells it, and evaluates rules each second. Built by `deploy/local/build.sh prometheus`.

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "tests/integration/harness/process.h"

namespace ringmaster::testing {

class PrometheusServer {
 public:
  // Serves when this returns. It shows the token, unless that is empty.
  static Result<std::unique_ptr<PrometheusServer>> Start(int target_port,
                                                         const std::string& rule_file,
                                                         const std::string& token);

  // The "data" of an answer of the HTTP API; null when it is not a success. `path` follows
  // "/api/v1/".
  nlohmann::json Get(const std::string& path) const;
  // What it says about a query that it refuses; empty for a good one.
  std::string Refusal(const std::string& path) const;
  // The samples of an instant query: [{"metric": …, "value": …}]; null when it is refused.
  nlohmann::json Query(const std::string& expression) const;

  std::string Log() const { return process_->Log(); }

 private:
  PrometheusServer() = default;

  TemporaryDirectory directory_{MemoryFolder()};
  int port_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace ringmaster::testing
