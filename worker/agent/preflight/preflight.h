#pragma once

// The checks that run before a worker is ready. All checks run in parallel, and their results are
// collected within a time limit. Used by the agent at start.

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
  bool fatal = true;  // false: the finding is only logged, and the worker becomes ready
  bool fault = true;  // false: the finding is only information
  bool timed_out = false;
};

// Checks one requirement of the worker. Returns, in one line, what is wrong and what to do about
// it. A check modifies nothing. It may block for a moment, so each check runs on its own thread.
using Check = std::optional<Finding> (*)(const Config& config);

// Returns all checks of a worker, by name.
std::map<std::string, Check> WorkerChecks();

// The functions of the checks that WorkerChecks() returns.
std::optional<Finding> CheckSshd(const Config& config);
std::optional<Finding> CheckMpiDaemon(const Config& config);
std::optional<Finding> CheckScratchSpace(const Config& config);
std::optional<Finding> CheckSharedMemory(const Config& config);
std::optional<Finding> CheckHostName(const Config& config);
std::optional<Finding> CheckAddress(const Config& config);
std::optional<Finding> CheckProgram(const Config& config);
std::optional<Finding> CheckMpiProgram(const Config& config);

// Not in WorkerChecks(): runs after the driver has listed `gpus`, which takes time (gpu_watch.h).
std::optional<Finding> CheckGpus(const Config& config, const GpuList& gpus);

// Returns whether `name` is a valid host name: RFC 1123 labels, at most 64 bytes in all. Pure.
bool IsLegalHostName(const std::string& name);

// Runs the checks once. The checks only read `config`. `done` gets the findings.
class Preflight {
 public:
  using Done = std::function<void(std::vector<Finding>)>;

  // `io` and `config` must outlive this object. `done` runs once, on `io`. If checks have not ended
  // after `limit`, or a second after a check has failed, one finding, "volume", names them. It
  // blames a volume only if no check has failed. The launcher never ignores this finding.
  Preflight(boost::asio::io_context& io, const Config& config, std::map<std::string, Check> checks,
            std::chrono::milliseconds limit, Done done);

  // Returns whether a check has not ended. The destructor would then block until it has.
  bool Running() const { return !pending_.empty(); }

 private:
  void AwaitLimit();
  void Collect(const std::string& name, std::optional<Finding> finding);
  void Report();

  boost::asio::io_context& io_;
  Done done_;
  boost::asio::steady_timer limit_;
  std::map<std::string, Check> pending_;
  std::vector<Finding> findings_;
  std::vector<std::jthread> threads_;  // last: joined before the other members are destroyed
};

}  // namespace ringmaster::agent
