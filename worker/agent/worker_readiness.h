#pragma once

// What has to be known before a worker is of use: sshd listens, preflight ran, the versions of its
// programs. Says so as AgentReady, again whenever something changes. Used by agent.cc;
// single-threaded but for the checks of preflight.h.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/control/messages.h"
#include "worker/agent/child_reaper.h"
#include "worker/agent/config.h"
#include "worker/agent/credentials.h"
#include "worker/agent/preflight/preflight.h"
#include "worker/agent/sshd.h"

namespace ringmaster::agent {

class WorkerReadiness {
 public:
  // `io`, `reaper`, `config` and `credentials` outlive this.
  WorkerReadiness(boost::asio::io_context& io, ChildReaper& reaper, const Config& config,
                  const Credentials& credentials,
                  std::function<void(const control::AgentReady&)> on_change);

  void Start();
  // Ends sshd; no handler runs from here on.
  void Stop();

  // Nothing while something is still being looked at.
  std::optional<control::AgentReady> Ready() const;

 private:
  void StartSshd();
  void AskVersion();
  void Tell();

  boost::asio::io_context& io_;
  ChildReaper& reaper_;
  const Config& config_;
  const Credentials& credentials_;
  const std::function<void(const control::AgentReady&)> on_change_;

  std::unique_ptr<Sshd> sshd_;
  std::unique_ptr<Preflight> preflight_;
  std::string address_;
  int ssh_port_ = 0;
  std::optional<std::string> sshd_fault_;
  std::optional<std::vector<control::PreflightFault>> faults_;  // nothing while preflight runs
  std::map<std::string, std::string> versions_;
  bool versions_known_ = false;
};

}  // namespace ringmaster::agent
