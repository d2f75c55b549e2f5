#pragma once

// Runs the operator binary for a test: outside the cluster, through the proxy, with only the
// permissions of a ServiceAccount. Sets the flags that make tests fast, such as a short Lease, in
// one place.

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
  Endpoint api{};                        // address of the proxy, and the token
  std::string ns = "ringmaster-system";  // namespace of its Lease and keyring
  std::string identity = "operator-under-test";
  std::string log_level = "debug";
  std::vector<std::string> flags{};  // additional flags
  // If true, /metrics requires a token. If false, tests can read metrics without token reviews.
  bool metrics_authorization = false;
};

class OperatorProcess {
 public:
  static Result<std::unique_ptr<OperatorProcess>> Start(const OperatorOptions& options);

  // Sends GET to /healthz or /readyz. Returns the status, or 0 if there is no answer.
  int Probe(const std::string& path) const;
  std::string Metrics() const;
  int admin_port() const { return admin_port_; }
  int metrics_port() const { return metrics_port_; }
  bool WaitReady(std::chrono::milliseconds limit = std::chrono::seconds(120)) const;
  bool WaitLeading(std::chrono::milliseconds limit = std::chrono::seconds(120)) const;

  Process& process() { return *process_; }
  void Kill() const { process_->Signal(9); }
  // Sends SIGTERM and waits. Returns the exit status; 124 if it did not end within `limit`.
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
