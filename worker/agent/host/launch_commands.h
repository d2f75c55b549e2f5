#pragma once

// Runs commands on this host for the launcher's mpirun, in place of ssh sessions. Each command
// runs in a shell; the handlers report its output and its exit. Used by agent.h.
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

  // `reaper` and `config` must outlive this object.
  LaunchCommands(ChildReaper& reaper, const Config& config, Handlers handlers)
      : reaper_(reaper), config_(config), handlers_(std::move(handlers)) {}

  // If the command cannot be started, calls on_exited before it returns.
  void Run(const control::RunCommand& run);
  // Ends the command with SIGTERM, then SIGKILL. A daemon that has detached itself continues.
  void End(int64_t id);
  // Ends all commands. No handler runs, because the launcher that sent them gets no reports.
  void EndAll();

  // Stops or resumes reading the commands' output.
  void PauseOutput(bool paused);

 private:
  ChildReaper& reaper_;
  const Config& config_;
  const Handlers handlers_;
  std::map<int64_t, std::shared_ptr<CapturedProcess>> running_;  // by id
};

// Returns a command's environment ("NAME=VALUE"): that of an ssh session, plus HOME and user.
std::vector<std::string> CommandEnvironment(const Config& config);

}  // namespace ringmaster::agent
