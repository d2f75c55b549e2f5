#pragma once

// The agent's configuration from environment variables (common/control/pod_contract.h), read and
// validated once at start. It does not depend on Kubernetes: tests and plain hosts set the same
// variables.

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>

#include "common/base/result.h"
#include "common/control/launch_spec.h"

namespace ringmaster::agent {

using Environment = std::map<std::string, std::string>;

// The variable with the working directory of the worker's container (workingDir, or the image's).
// The agent passes it to attach, because sshd starts sessions in the user's home folder.
inline constexpr char kEnvWorkingDir[] = "RINGMASTER_WORKING_DIR";
// The variable with the path of the file that a program may touch as a heartbeat. attach sets the
// variable. `folder` is the folder of the agent's socket.
inline constexpr char kEnvHeartbeat[] = "RINGMASTER_HEARTBEAT";
inline std::filesystem::path HeartbeatFile(const std::filesystem::path& folder, int slot) {
  return folder / ("heartbeat-" + std::to_string(slot));
}

// Converts this process's environment block to a map.
Environment ProcessEnvironment(char** environ);

// The source and the destination of a worker's data cache.
struct DataCacheSettings {
  std::filesystem::path source;  // mount path of the volume
  std::string sub_path;          // folder of the volume to copy; empty: all of it
  std::filesystem::path folder;  // destination
};

struct Config {
  std::string job_name;
  std::string job_namespace;
  std::string job_uid;
  std::string pod;
  std::string pod_uid;
  std::string node;
  int worker_index = 0;

  std::string launcher_address;  // an IP address, not a host name, so that no DNS is needed
  int launcher_port = 0;
  control::LaunchSpec spec;
  int gpus = 0;  // number of GPUs that the container requests (RINGMASTER_GPUS); 0: none
  std::string nvml_library;

  std::filesystem::path credentials_dir;
  std::string item_hashes;  // JSON from the operator: hashes of the Secret's items
  std::filesystem::path runtime_dir;
  std::filesystem::path snapshot_dir;  // folder of this worker's snapshots; empty: no snapshots

  std::optional<DataCacheSettings> data_cache;  // empty: none; otherwise filled before ranks start

  std::chrono::milliseconds load_limit{600'000};  // a rank that loads longer counts as hung

  std::optional<std::chrono::seconds> stop_grace;  // from SIGTERM to SIGKILL, if the job sets it

  std::string user;  // user name in the image's passwd file; empty: the user is not in it

  mode_t mask = 022;  // the container's umask at start, for the programs that the agent starts

  Environment container;  // the container's environment, for the processes that the agent starts

  std::filesystem::path AgentSocket() const { return runtime_dir / "agent.sock"; }
  std::string Path() const;  // the container's PATH, or empty
};

// Prepends `folder` to PYTHONPATH, so that Python looks for packages in it before the folders in
// the container's PYTHONPATH.
void PutFirstInPythonPath(const std::filesystem::path& folder, Environment& container);

// kInvalid: the message names the variable that is missing or wrong.
Result<Config> ReadConfig(const Environment& environment);

}  // namespace ringmaster::agent
