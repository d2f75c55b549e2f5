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

// The working directory in which the worker's container was started (workingDir, or the image's),
// passed from the agent to attach through sshd's sessions, which start in the user's home.
inline constexpr char kEnvWorkingDir[] = "RINGMASTER_WORKING_DIR";
// The file that a program may touch as a heartbeat, passed to it by attach. `folder` is that of the
// agent's socket.
inline constexpr char kEnvHeartbeat[] = "RINGMASTER_HEARTBEAT";
inline std::filesystem::path HeartbeatFile(const std::filesystem::path& folder, int slot) {
  return folder / ("heartbeat-" + std::to_string(slot));
}

// The environment of this process.
Environment ProcessEnvironment(char** environ);

// The source of a worker's data cache, and its location.
struct DataCacheSettings {
  std::filesystem::path source;  // where the volume is mounted
  std::string sub_path;          // what of it; empty: all
  std::filesystem::path folder;  // to be filled
};

struct Config {
  std::string job_name;
  std::string job_namespace;
  std::string job_uid;
  std::string pod;
  std::string pod_uid;
  std::string node;
  int worker_index = 0;

  std::string launcher_address;  // an IP address, no name: there is no DNS in the path
  int launcher_port = 0;
  control::LaunchSpec spec;
  int gpus = 0;  // wanted by the container, from RINGMASTER_GPUS; 0: none
  std::string nvml_library;

  std::filesystem::path credentials_dir;
  std::string item_hashes;  // JSON, as the operator wrote it
  std::filesystem::path runtime_dir;
  std::filesystem::path snapshot_dir;  // this worker's own; empty: its ranks make no snapshots

  std::optional<DataCacheSettings> data_cache;  // to be filled before any rank loads

  std::chrono::milliseconds load_limit{600'000};  // a rank that says nothing for so long hangs

  std::optional<std::chrono::seconds> stop_grace;  // of a program, after SIGTERM, as the job says

  std::string user;  // our name in the image's passwd file; empty: it has none

  mode_t mask = 022;  // the umask that the container was started with, for its programs

  Environment container;  // all of it, for the processes the agent starts

  std::filesystem::path AgentSocket() const { return runtime_dir / "agent.sock"; }
  std::string Path() const;  // the container's PATH, or empty
};

// Has the Python of this container's processes find the packages in `folder` first, and those of
// the container's own PYTHONPATH after them.
void PutFirstInPythonPath(const std::filesystem::path& folder, Environment& container);

// kInvalid names the variable that is missing or wrong.
Result<Config> ReadConfig(const Environment& environment);

}  // namespace ringmaster::agent
