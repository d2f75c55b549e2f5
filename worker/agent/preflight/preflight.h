#pragma once

// Runs all checks at once and collects what they find, within a second. Used by the agent at start;
// each check is a file of its own beside this one.

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "worker/agent/preflight/check.h"

namespace ringmaster::agent {

// The checks of a worker, by name.
std::map<std::string, Check> WorkerChecks();

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
