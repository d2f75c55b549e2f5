#pragma once

// The operator binary as a test runs it: outside the cluster, through the proxy, with the rights of
// a ServiceAccount and nothing more. Flags that make tests quick (a short Lease) are given here
// once.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tests/integration/harness/api_client.h"
#include "tests/integration/harness/process.h"

namespace ringmaster::testing {

struct OperatorOptions {
  std::string program{};                 // path of the binary
  Endpoint api{};                        // the proxy, and the token
  std::string ns = "ringmaster-system";  // where its Lease and keyring are
  std::string identity = "operator-under-test";
  std::string log_level = "debug";
  std::vector<std::string> flags{};  // more of them
  // Whether /metrics wants a token; without, tests read what they need and cause no reviews.
  bool metrics_authorization = false;
};

class OperatorProcess {
 public:
  static Result<std::unique_ptr<OperatorProcess>> Start(const OperatorOptions& options);

  // GET of /healthz or /readyz: the status, or 0 when nobody answers.
  int Probe(const std::string& path) const;
  std::string Metrics() const;
  int admin_port() const { return admin_port_; }
  int metrics_port() const { return metrics_port_; }
  bool WaitReady(std::chrono::milliseconds limit = std::chrono::seconds(120)) const;
  bool WaitLeading(std::chrono::milliseconds limit = std::chrono::seconds(120)) const;

  Process& process() { return *process_; }
  void Kill() const { process_->Signal(9); }
  // SIGTERM and wait: the exit status, 124 when it did not end in time.
  int Stop(std::chrono::milliseconds limit = std::chrono::seconds(60));
  std::string Log() const { return process_->Log(); }
  bool LogHas(const std::string& text) const { return Log().find(text) != std::string::npos; }

 private:
  OperatorProcess() = default;

  TemporaryDirectory directory_;
  int admin_port_ = 0;
  int metrics_port_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace ringmaster::testing
