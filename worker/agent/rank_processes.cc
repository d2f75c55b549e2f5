#include "worker/agent/rank_processes.h"

#include <utility>

#include "common/base/log.h"
#include "worker/agent/rank_environment.h"

namespace ringmaster::agent {

using std::chrono::steady_clock;

RankProcesses::RankProcesses(boost::asio::io_context& io, ChildReaper& reaper, const Config& config,
                             Handlers handlers)
    : io_(io),
      reaper_(reaper),
      config_(config),
      cpus_(AvailableCpus()),
      handlers_(std::move(handlers)) {}

Result<void> RankProcesses::Start(int slot) {
  ProcessSpec spec;
  spec.argv = config_.spec.command;
  spec.environment = RankEnvironment(config_, slot, cpus_);
  Result<std::shared_ptr<CapturedProcess>> started = CapturedProcess::Start(
      io_, reaper_, std::move(spec),
      {.on_output = [this, slot](
                        bool is_stderr,
                        std::string_view data) { handlers_.on_output(slot, is_stderr, data); },
       .on_end =
           [this, slot](ProcessEnd end, const LastLines& last_lines) {
             const auto lived = steady_clock::now() - ranks_.at(slot).started;
             ranks_.erase(slot);
             LogInfo("A rank ended",
                     {{"slot", slot}, {"exitCode", end.exit_code}, {"signal", end.signal}});
             handlers_.on_end(slot,
                              {end, std::chrono::duration_cast<std::chrono::milliseconds>(lived),
                               last_lines.Lines()});
           }});
  if (!started.ok()) return started.error();
  LogInfo("Started a rank", {{"slot", slot}, {"pid", (*started)->pid()}});
  ranks_[slot] = {*std::move(started), steady_clock::now()};
  return {};
}

void RankProcesses::Stop(int slot, std::chrono::milliseconds grace) {
  const auto rank = ranks_.find(slot);
  if (rank != ranks_.end()) rank->second.process->Stop(grace);
}

void RankProcesses::CallAfter(int slot, std::chrono::milliseconds delay) {
  auto& timer = due_[slot];
  timer = std::make_unique<boost::asio::steady_timer>(io_, delay);
  timer->async_wait([this, slot](const boost::system::error_code& cancelled) {
    if (!cancelled) handlers_.on_due(slot);
  });
}

void RankProcesses::PauseOutput(int slot, bool paused) {
  const auto rank = ranks_.find(slot);
  if (rank != ranks_.end()) rank->second.process->PauseOutput(paused);
}

pid_t RankProcesses::Group(int slot) const {
  const auto rank = ranks_.find(slot);
  return rank == ranks_.end() ? -1 : rank->second.process->pid();
}

}  // namespace ringmaster::agent
