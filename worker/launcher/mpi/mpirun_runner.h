#pragma once

// Runs mpirun for one cohort at a time: writes mpirun's input files, logs the command,
// passes on its output, keeps the last lines, and reports the exit. Used by Launcher, on its
// thread.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/process/captured_process.h"
#include "common/process/child_reaper.h"
#include "worker/launcher/model/actions.h"
#include "worker/launcher/model/config.h"
#include "worker/launcher/mpi/host_files.h"
#include "worker/launcher/mpi/mpirun_command.h"

namespace ringmaster::launcher {

class MpirunRunner {
 public:
  using OnExit = std::function<void(int64_t cohort, const MpirunExit&)>;
  using OnVersion = std::function<void(Result<MpiVersion>)>;

  // `reaper` and `config` must outlive this object. `identity_file` and `host_public_key` are the
  // job's ssh keys.
  MpirunRunner(ChildReaper& reaper, const Config& config, std::string identity_file,
               std::string host_public_key, OnExit on_exit);
  ~MpirunRunner();  // kills a running mpirun

  // Asks mpirun for its version and calls `on_version` once, with an error if the other functions
  // cannot be used. kNotFound: mpirun is missing. kInvalid: it is not Open MPI 4 or 5. Other
  // errors: mpirun cannot be run, or did not answer within `limit` and was killed.
  void Probe(std::chrono::milliseconds limit, OnVersion on_version);

  // REQUIRES: the version is known. If the start fails, reports an exit before it returns.
  void Start(const StartMpirun& start);

  // Stops a running mpirun: SIGTERM, then SIGKILL after two seconds.
  void Stop();

  bool running() const { return process_ != nullptr; }

 private:
  Result<void> TryStart(const StartMpirun& start);
  Result<void> Run(std::vector<std::string> argv, const MpirunPlan& plan,
                   CapturedProcess::Handlers handlers);
  MpirunPlan PlanFor(const StartMpirun& start) const;
  void Abandon();

  ChildReaper& reaper_;
  const Config& config_;
  const std::string identity_file_;
  const std::string host_public_key_;
  const OnExit on_exit_;
  const HostFiles files_;
  std::string mpirun_;  // absolute path of mpirun
  MpiVersion version_;
  std::shared_ptr<CapturedProcess> process_;
};

}  // namespace ringmaster::launcher
