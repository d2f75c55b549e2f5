#pragma once

// Tracks whether a worker is ready: sshd listens, the preflight checks passed, its GPUs answer, the
// versions of its programs are known, and its data cache is filled. Reports the result as
// AgentReady, and again after each change. Used by agent.cc. Single-threaded, except for the checks
// in preflight.h and the copying in data_cache/.

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
#include "worker/agent/host/gpu_watch.h"
#include "worker/agent/host/sshd.h"
#include "worker/agent/preflight/preflight.h"

namespace ringmaster::agent {

class WorkerReadiness {
 public:
  struct Handlers {
    std::function<void(const control::AgentReady&)> on_change;
    // Called once with the driver's list of GPUs, if the worker has any.
    std::function<void(const GpuList&)> on_gpus;
    std::function<void(const GpuTrouble&)> on_gpu_trouble;
    // Called once, when ranks can load: the checks have ended, the driver has listed the GPUs, and
    // the data cache is filled. Never called if a check times out, the cache cannot be filled or a
    // GPU does not answer.
    std::function<void()> on_loadable;
    std::function<void(const control::DataCacheProgress&)> on_progress;
  };

  // `io`, `reaper`, `config` and `credentials` must outlive this object.
  WorkerReadiness(boost::asio::io_context& io, ChildReaper& reaper, const Config& config,
                  const Credentials& credentials, Handlers handlers);

  void Start();
  // Ends sshd and the copying of data; no handler runs afterwards.
  void Stop();
  // Returns whether a thread still uses a volume. The destructor blocks if the volume hangs.
  bool UsesVolumes() const;

  // Returns nothing while a check or the copying of data is in progress. Returns faults of
  // preflight earlier, because they do not depend on the data.
  std::optional<control::AgentReady> Ready() const;
  // Returns the progress of the data cache while it is filled; otherwise nothing.
  std::optional<control::DataCacheProgress> Progress() const;

 private:
  void OnChecked(const std::vector<Finding>& findings);
  void StartSshd();
  // Runs a program. Calls `done` with its output when the program ends or its time is up.
  void Ask(std::vector<std::string> argv, std::vector<std::string> environment,
           std::function<void(const std::string& answer)> done);
  void AskVersion();
  void AskAboutProgram();
  // Logs a finding, and adds it to `faults` if it is fatal.
  void Note(const Finding& finding, std::vector<control::PreflightFault>& faults) const;
  void FindGpus();
  void FillCache();
  void LoadIfPossible();
  void Notify();

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
  std::optional<std::vector<control::PreflightFault>> faults_;  // empty while preflight runs
  std::map<std::string, std::string> versions_;
  int questions_ = 0;                                    // number of programs of Ask() that run
  std::vector<control::PreflightFault> program_faults_;  // faults found by programs of Ask()
  std::unique_ptr<GpuWatch> gpu_watch_;                  // null: the worker has no GPUs
  bool gpus_known_ = false;
  std::optional<control::PreflightFault> gpu_fault_;
  bool volumes_respond_ = false;  // all checks have ended
  bool data_there_ = false;
  std::unique_ptr<DataCache> data_cache_;  // null: the job has no data cache
  std::optional<std::string> data_fault_;
};

}  // namespace ringmaster::agent
