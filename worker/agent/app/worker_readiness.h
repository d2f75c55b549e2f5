#pragma once

// What has to be there before a worker is of use: sshd listens, preflight ran, the versions of its
// programs are known, its data cache is filled. Says so as AgentReady, again whenever something
// changes. Used by agent.cc; single-threaded but for the checks of preflight.h and the copying of
// data_cache/.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/control/agent_launcher_messages.h"
#include "common/process/child_reaper.h"
#include "worker/agent/config/config.h"
#include "worker/agent/config/credentials.h"
#include "worker/agent/data_cache/data_cache.h"
#include "worker/agent/host/sshd.h"
#include "worker/agent/preflight/preflight.h"

namespace ringmaster::agent {

class WorkerReadiness {
 public:
  struct Handlers {
    std::function<void(const control::AgentReady&)> on_change;
    // Once: ranks can load. Within Start() where the job has no data cache, never where it cannot
    // be filled.
    std::function<void()> on_data;
    std::function<void(const control::DataCacheProgress&)> on_progress;
  };

  // `io`, `reaper`, `config` and `credentials` outlive this.
  WorkerReadiness(boost::asio::io_context& io, ChildReaper& reaper, const Config& config,
                  const Credentials& credentials, Handlers handlers);

  void Start();
  // Ends sshd and the copying; no handler runs from here on.
  void Stop();

  // Nothing while something is still being looked at, or copied. What preflight found is told at
  // once: it needs no data to be true.
  std::optional<control::AgentReady> Ready() const;
  // Of the data cache, while it is being filled.
  std::optional<control::DataCacheProgress> Progress() const;

 private:
  void StartSshd();
  void AskVersion();
  void FillCache();
  void Tell();

  boost::asio::io_context& io_;
  ChildReaper& reaper_;
  const Config& config_;
  const Credentials& credentials_;
  const Handlers handlers_;

  std::unique_ptr<Sshd> sshd_;
  std::unique_ptr<Preflight> preflight_;
  std::string address_;
  int ssh_port_ = 0;
  std::optional<std::string> sshd_fault_;
  std::optional<std::vector<control::PreflightFault>> faults_;  // nothing while preflight runs
  std::map<std::string, std::string> versions_;
  bool versions_known_ = false;
  std::unique_ptr<DataCache> data_cache_;  // none: the job has no data cache
  std::optional<std::string> data_fault_;
};

}  // namespace ringmaster::agent
