#pragma once

// Runs the commands that the launcher's mpirun sends to this host if it has no sshd. Each runs in
// a shell, as in an sshd session; its output and exit are reported. Used by agent.h.
// Single-threaded.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/control/agent_launcher_messages.h"
#include "common/process/captured_process.h"
#include "common/process/child_reaper.h"
#include "worker/agent/config/config.h"

namespace ringmaster::agent {

class LaunchCommands {
 public:
  struct Handlers {
    std::function<void(const control::CommandOutput&)> on_output;
    std::function<void(const control::CommandExited&)> on_exited;  // called once for each command
  };

  // `reaper` and `config` outlive this.
  LaunchCommands(ChildReaper& reaper, const Config& config, Handlers handlers)
      : reaper_(reaper), config_(config), handlers_(std::move(handlers)) {}

  // If the command cannot be started, reports that within the call.
  void Run(const control::RunCommand& run);
  // Sends SIGTERM, then SIGKILL. A daemon that has detached itself continues.
  void End(int64_t id);
  // Ends all commands, because their launcher no longer gets reports. No handler runs.
  void EndAll();

  // Stops or resumes reading their output.
  void PauseOutput(bool paused);

 private:
  ChildReaper& reaper_;
  const Config& config_;
  const Handlers handlers_;
  std::map<int64_t, std::shared_ptr<CapturedProcess>> running_;  // by id
};

// The environment of a command, "NAME=VALUE": an sshd session's, and the container's home and user.
std::vector<std::string> CommandEnvironment(const Config& config);

}  // namespace ringmaster::agent
