#pragma once

// Runs mpirun for one cohort after the other: writes the files it reads, prints the line it runs,
// passes its output through to ours, keeps the last lines, reports its end. One at a time. Used by
// Launcher, on its thread.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "worker/launcher/child_process.h"
#include "worker/launcher/config.h"
#include "worker/launcher/host_files.h"
#include "worker/launcher/last_lines.h"
#include "worker/launcher/membership_actions.h"
#include "worker/launcher/mpirun_command.h"

namespace ringmaster::launcher {

class MpirunRunner {
 public:
  using OnExit = std::function<void(int64_t cohort, const MpirunExit&)>;
  using OnVersion = std::function<void(Result<MpiVersion>)>;

  // `children` and `config` outlive this. `identity_file` and `host_public_key`: of the job's ssh
  // keys.
  MpirunRunner(ChildProcesses& children, const Config& config, std::string identity_file,
               std::string host_public_key, OnExit on_exit);

  // Asks mpirun which one it is; the rest works once `on_version` has been called with one.
  void Probe(OnVersion on_version);

  // REQUIRES: probed. A start that fails is reported like an exit, from within the call.
  void Start(const StartMpirun& start);

  // Ends the running one, if any: SIGTERM, SIGKILL after two seconds.
  void Stop();

  bool running() const { return process_ != nullptr; }

 private:
  Result<void> TryStart(const StartMpirun& start);
  MpirunPlan PlanFor(const StartMpirun& start) const;

  ChildProcesses& children_;
  const Config& config_;
  const std::string identity_file_;
  const std::string host_public_key_;
  const OnExit on_exit_;
  const HostFiles files_;
  std::string mpirun_;  // absolute path
  MpiVersion version_;
  std::string probe_output_;
  LastLines last_lines_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace ringmaster::launcher
