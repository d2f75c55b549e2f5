#pragma once

// The checks that run before a worker is ready. All checks run in parallel, and their results are
// collected within a second. Used by the agent at start.

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "worker/agent/config/config.h"
#include "worker/agent/host/gpu_list.h"

namespace ringmaster::agent {

struct Finding {
  std::string check;
  std::string message;
  bool fatal = true;  // false: worth a line in the log, the worker is ready all the same
  bool fault = true;  // false: nothing is wrong; worth knowing
};

// Looks at one thing and says, in one line, what is wrong and what to do. It only looks; it may
// block for a moment, so each runs on a thread of its own.
using Check = std::optional<Finding> (*)(const Config& config);

// The checks of a worker, by name.
std::map<std::string, Check> WorkerChecks();

// Each of them.
std::optional<Finding> CheckSshd(const Config& config);
std::optional<Finding> CheckMpiDaemon(const Config& config);
std::optional<Finding> CheckScratchSpace(const Config& config);
std::optional<Finding> CheckSharedMemory(const Config& config);
std::optional<Finding> CheckHostName(const Config& config);
std::optional<Finding> CheckAddress(const Config& config);
std::optional<Finding> CheckProgram(const Config& config);
std::optional<Finding> CheckMpiProgram(const Config& config);

// Not one of the checks at start: `gpus` is what the driver says, in its own time (gpu_watch.h).
std::optional<Finding> CheckGpus(const Config& config, const GpuList& gpus);

// Legal as a host name: RFC 1123 labels, 64 bytes in all. Pure.
bool IsLegalHostName(const std::string& name);

// One run. The threads only read `config`; results are handled on the io_context's thread.
class Preflight {
 public:
  using Done = std::function<void(std::vector<Finding>)>;

  // `io` and `config` outlive this; `done` runs once, on `io`. A check that has not ended after
  // `limit` is a finding.
  Preflight(boost::asio::io_context& io, const Config& config, std::map<std::string, Check> checks,
            std::chrono::milliseconds limit, Done done);

 private:
  void Collect(const std::string& name, std::optional<Finding> finding);
  void Report();

  boost::asio::io_context& io_;
  Done done_;
  boost::asio::steady_timer limit_;
  std::map<std::string, Check> pending_;
  std::vector<Finding> findings_;
  std::vector<std::jthread> threads_;  // last: joined before anything they touch goes
};

}  // namespace ringmaster::agent
