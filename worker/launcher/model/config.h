#pragma once

// The launcher's configuration: the environment that the operator writes into its Pod
// (pod_contract.h), validated once at start.

#include <chrono>
#include <map>
#include <string>

#include "common/base/result.h"
#include "common/control/launch_spec.h"
#include "worker/launcher/model/restart_limit.h"

namespace ringmaster::launcher {

using Environment = std::map<std::string, std::string>;

Environment ProcessEnvironment();

struct Config {
  std::string job;  // namespace/name, for logs
  std::string job_uid;
  int64_t term = 0;
  control::LaunchSpec spec;

  std::string credentials_dir;
  std::string item_hashes;
  std::string runtime_dir;
  std::string termination_log;
  int control_port = 0;
  int api_port = 0;
  std::chrono::milliseconds heartbeat{100};
  std::chrono::milliseconds lost_after{2000};   // a worker that is silent for longer is lost
  std::chrono::milliseconds stall_floor{2000};  // see stall_watch.h
  std::chrono::seconds start_wait{30};          // after this time, minReplicas workers are enough
  std::chrono::seconds stop_grace{1};           // time from SIGTERM to SIGKILL of a program
  int restart_limit = 10;                       // maximum number of exits of ranks in the window
  std::chrono::seconds restart_window{3600};
  int crash_limit = 5;  // limit on consecutive kills of ranks without a step; 0: no limit
  ExitCodeRules exit_codes;

  std::string attach;       // absolute path of ringmaster-attach, the same in launcher and workers
  std::string rsh;          // absolute path of ringmaster-rsh in the launcher
  Environment environment;  // the whole environment; mpirun gets part of it

  std::string RshSocket() const { return runtime_dir + "/rsh.sock"; }
};

// kInvalid: the message names the invalid variable.
Result<Config> ReadConfig(const Environment& environment);

}  // namespace ringmaster::launcher
