#include "worker/agent/host/launch_commands.h"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "common/base/log.h"
#include "worker/agent/host/sshd_config.h"

namespace ringmaster::agent {
namespace {

constexpr std::chrono::milliseconds kCommandGrace{1000};

}  // namespace

void LaunchCommands::Run(const control::RunCommand& run) {
  const int64_t id = run.id;
  ProcessSpec spec;
  spec.argv = {"sh", "-c", run.command};
  spec.environment = CommandEnvironment(config_);
  spec.mask = config_.mask;
  spec.leaves_daemons = true;  // mpirun's daemon detaches itself and must survive
  Result<std::shared_ptr<CapturedProcess>> started =
      CapturedProcess::Start(reaper_, std::move(spec),
                             {.on_output =
                                  [this, id](bool is_stderr, std::string_view data) {
                                    handlers_.on_output({id, is_stderr, std::string(data)});
                                  },
                              .on_end =
                                  [this, id](ProcessEnd end, const LastLines&) {
                                    running_.erase(id);
                                    LogInfo("Finished a command of mpirun",
                                            {{"exitCode", end.exit_code}, {"signal", end.signal}});
                                    handlers_.on_exited({id, end.exit_code, end.signal, ""});
                                  }});
  if (!started.ok()) {
    LogWarn("Failed to run a command of mpirun", {{"reason", started.error().message}});
    return handlers_.on_exited({id, -1, 0, started.error().message});
  }
  LogInfo("Started a command of mpirun", {{"pid", (*started)->pid()}});
  running_[id] = *std::move(started);
}

void LaunchCommands::End(int64_t id) {
  const auto found = running_.find(id);
  if (found != running_.end()) found->second->Stop(kCommandGrace);
}

void LaunchCommands::EndAll() {
  for (auto& [id, process] : std::exchange(running_, {})) {
    process->Forget();
    process->Stop(kCommandGrace);
  }
}

void LaunchCommands::PauseOutput(bool paused) {
  for (auto& [id, process] : running_) process->PauseOutput(paused);
}

std::vector<std::string> CommandEnvironment(const Config& config) {
  std::error_code unknown;  // if the directory was removed, kEnvWorkingDir is not set
  std::map<std::string, std::string> environment =
      SessionEnvironment(config.container, config.AgentSocket(),
                         std::filesystem::current_path(unknown).string(), ::geteuid() == 0);
  for (const char* const name : {"HOME", "USER", "LOGNAME"}) {
    const auto found = config.container.find(name);
    if (found != config.container.end()) environment.insert(*found);
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : environment) entries.push_back(name + '=' + value);
  return entries;
}

}  // namespace ringmaster::agent
