#include "worker/agent/process_table/rank_processes.h"

#include <csignal>
#include <utility>

#include "common/base/log.h"
#include "worker/agent/process_table/rank_environment.h"
#include "worker/agent/process_table/stack_capture.h"
#include "worker/agent/process_table/thread_list.h"

namespace ringmaster::agent {

using std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds kOrphansLimit{500};

}  // namespace

RankProcesses::RankProcesses(boost::asio::io_context& io, ChildReaper& reaper, const Config& config,
                             Handlers handlers)
    : io_(io),
      reaper_(reaper),
      config_(config),
      cpus_(AvailableCpus()),
      handlers_(std::move(handlers)) {}

std::string RankProcesses::Gpus(int slot) const {
  const auto index = static_cast<std::size_t>(slot);
  return index < gpus_.size() ? gpus_[index] : "";
}

Result<void> RankProcesses::Start(int slot) {
  Result<RankPage> made = RankPage::Make();
  if (!made.ok())
    LogWarn("Failed to create the position page of a rank", {{"reason", made.error().message}});
  std::shared_ptr<const RankPage> page;
  if (made.ok()) page = std::make_shared<const RankPage>(*std::move(made));
  const std::string path = page == nullptr ? "" : page->Path();
  return Launch(slot, RankEnvironment(config_, slot, cpus_, path, Gpus(slot)), std::move(page));
}

Result<void> RankProcesses::Start(const ProgramPlace& place, int port) {
  return Launch(place.slot, ProgramEnvironment(config_, place, cpus_, port), nullptr);
}

Result<void> RankProcesses::Launch(int slot, std::vector<std::string> environment,
                                   std::shared_ptr<const RankPage> page) {
  ProcessSpec spec;
  spec.argv = config_.spec.command;
  spec.environment = std::move(environment);
  spec.mask = config_.mask;
  Result<std::shared_ptr<CapturedProcess>> started = CapturedProcess::Start(
      reaper_, std::move(spec),
      {.on_output = [this, slot](
                        bool is_stderr,
                        std::string_view data) { handlers_.on_output(slot, is_stderr, data); },
       .on_end =
           [this, slot](ProcessEnd end, const LastLines& last_lines) {
             const auto lived = steady_clock::now() - ranks_.at(slot).started;
             ranks_.erase(slot);
             // torchrun's ranks run in separate sessions and outlive a torchrun that is killed.
             // While another slot's program runs, orphans may be processes that it started.
             const bool was_last = ranks_.empty();
             if (was_last && !config_.spec.InPlace()) reaper_.KillOrphans(kOrphansLimit);
             LogInfo("A rank exited",
                     {{"slot", slot}, {"exitCode", end.exit_code}, {"signal", end.signal}});
             handlers_.on_end(slot,
                              {end, std::chrono::duration_cast<std::chrono::milliseconds>(lived),
                               last_lines.Lines()});
           }});
  if (!started.ok()) return started.error();
  LogInfo("Started a rank", {{"slot", slot}, {"pid", (*started)->pid()}});
  ranks_[slot] = {
      .process = *std::move(started), .started = steady_clock::now(), .page = std::move(page)};
  return {};
}

void RankProcesses::Stop(int slot, std::chrono::milliseconds grace) {
  const auto rank = ranks_.find(slot);
  if (rank != ranks_.end()) rank->second.process->Stop(grace);
}

void RankProcesses::Kill(int slot) {
  const auto rank = ranks_.find(slot);
  if (rank != ranks_.end()) rank->second.process->Signal(SIGKILL);
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

void RankProcesses::SetRank(int slot, pid_t process) {
  const auto rank = ranks_.find(slot);
  if (rank == ranks_.end()) return;
  rank->second.rank = process;
  // Do not watch the rank of a wrapper, because only the exit of the wrapper itself is reported.
  const pid_t started = rank->second.process->pid();
  if (process != started) return;
  rank->second.killed = KillWatch::Start(io_, rank->second.page, process, [this, slot, started] {
    if (!reaper_.Running(started)) return;
    LogInfo("A rank was killed", {{"slot", slot}, {"pid", started}});
    handlers_.on_killed(slot, ranks_.at(slot).process->last_lines().Lines());
  });
}

std::optional<RankPage::Reading> RankProcesses::Position(int slot) const {
  const auto rank = ranks_.find(slot);
  if (rank == ranks_.end() || rank->second.page == nullptr) return std::nullopt;
  return rank->second.page->Read();
}

bool RankProcesses::Stopped(int slot) const {
  const auto rank = ranks_.find(slot);
  if (rank == ranks_.end() || rank->second.rank < 0) return false;
  const char state = StateOf(rank->second.rank);
  return state == 'T' || state == 't';
}

std::chrono::milliseconds RankProcesses::Age(int slot) const {
  const auto rank = ranks_.find(slot);
  if (rank == ranks_.end()) return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() -
                                                               rank->second.started);
}

void RankProcesses::EndHanging(int slot, std::function<void(const std::string&)> on_stack) {
  const auto found = ranks_.find(slot);
  if (found == ranks_.end() || found->second.ending) return;
  Rank& rank = found->second;
  rank.ending = true;
  const pid_t process = rank.rank < 0 ? rank.process->pid() : rank.rank;
  StackCapture::Start(io_, process, rank.page, {},
                      [captured = rank.process, on_stack](const std::string& stack) {
                        on_stack(stack);
                        captured->Signal(SIGKILL);
                      });
}

}  // namespace ringmaster::agent
