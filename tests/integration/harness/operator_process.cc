#include "tests/integration/harness/operator_process.h"

#include <csignal>

#include "tests/integration/harness/control_plane.h"
#include "tests/integration/harness/plain_http.h"

namespace ringmaster::testing {

Result<std::unique_ptr<OperatorProcess>> OperatorProcess::Start(const OperatorOptions& options) {
  std::unique_ptr<OperatorProcess> started(new OperatorProcess);
  const std::filesystem::path directory = started->directory_.path();
  WriteFile(directory / "token", options.api.token);
  WriteFile(directory / "kubeconfig", Kubeconfig(options.api, directory / "token"));
  started->admin_port_ = FreePort();
  started->metrics_port_ = FreePort();
  ProcessOptions process;
  process.argv = {
      options.program,
      "--kubeconfig=" + (directory / "kubeconfig").string(),
      "--namespace=" + options.ns,
      "--identity=" + options.identity,
      "--admin-address=127.0.0.1",
      "--admin-port=" + std::to_string(started->admin_port_),
      "--metrics-address=127.0.0.1",
      "--metrics-port=" + std::to_string(started->metrics_port_),
      std::string("--metrics-authorization=") + (options.metrics_authorization ? "true" : "false"),
      "--log-level=" + options.log_level};
  process.argv.insert(process.argv.end(), options.flags.begin(), options.flags.end());
  process.log = directory / "log";
  auto running = Process::Start(process);
  if (!running.ok()) return running.error();
  started->process_ = std::move(*running);
  return started;
}

int OperatorProcess::Probe(const std::string& path) const {
  return PlainGet(admin_port_, path).status;
}

std::string OperatorProcess::Metrics() const { return TlsGet(metrics_port_, "/metrics").text; }

bool OperatorProcess::WaitReady(std::chrono::milliseconds limit) const {
  return WaitUntil([&] { return !process_->Running() || Probe("/readyz") == 200; }, limit) &&
         process_->Running();
}

bool OperatorProcess::WaitLeading(std::chrono::milliseconds limit) const {
  const auto leads = [&] {
    const std::string metrics = Metrics();
    const std::size_t line = metrics.find("\nleader_election_master_status{");
    return line != std::string::npos && metrics.compare(metrics.find("} ", line), 4, "} 1\n") == 0;
  };
  return WaitUntil(leads, limit);
}

int OperatorProcess::Stop(std::chrono::milliseconds limit) {
  process_->Signal(SIGTERM);
  return process_->Wait(limit).value_or(124);
}

}  // namespace ringmaster::testing
