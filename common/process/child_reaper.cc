#include "common/process/child_reaper.h"

#include <cerrno>
#include <csignal>
#include <fstream>
#include <poll.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ringmaster {
namespace {

// Signals the group. SIGCONT lets processes of the group that are stopped handle the SIGTERM.
void SignalGroup(pid_t group, int signal) {
  kill(-group, signal);
  if (signal == SIGTERM) kill(-group, SIGCONT);
}

std::vector<pid_t> Children() {
  std::ifstream file("/proc/self/task/" + std::to_string(getpid()) + "/children");
  std::vector<pid_t> pids;
  for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
  return pids;
}

void KillUntilNone(const std::function<std::vector<pid_t>()>& left,
                   std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < deadline) {
    const std::vector<pid_t> pids = left();
    if (pids.empty()) return;
    for (const pid_t pid : pids) kill(pid, SIGKILL);
    for (const pid_t pid : pids) {
      pid_t reaped = 0;
      while ((reaped = waitpid(pid, nullptr, WNOHANG)) == 0 &&
             std::chrono::steady_clock::now() < deadline) {
        poll(nullptr, 0, 1);  // a killed process ends some time later; no event reports its end
      }
    }
  }
}

}  // namespace

ChildReaper::ChildReaper(boost::asio::io_context& io) : io_(io), signals_(io, SIGCHLD) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  AwaitSignal();
}

void ChildReaper::Watch(pid_t pid, EndHandler on_end) {
  children_[pid] = Child{std::move(on_end), nullptr};
}

void ChildReaper::Stop(pid_t pid, std::chrono::milliseconds grace) {
  const auto child = children_.find(pid);
  if (child == children_.end() || child->second.kill_timer != nullptr) return;
  SignalGroup(pid, SIGTERM);
  child->second.kill_timer = std::make_unique<boost::asio::steady_timer>(io_, grace);
  child->second.kill_timer->async_wait([this, pid](const boost::system::error_code& error) {
    if (!error && Running(pid)) SignalGroup(pid, SIGKILL);
  });
}

void ChildReaper::KillGroup(pid_t pid) { SignalGroup(pid, SIGKILL); }

void ChildReaper::KillAll(std::chrono::milliseconds limit) { KillUntilNone(Children, limit); }

void ChildReaper::KillOrphans(std::chrono::milliseconds limit) {
  KillUntilNone(
      [this] {
        std::vector<pid_t> orphans = Children();
        std::erase_if(orphans, [this](pid_t pid) { return Running(pid); });
        return orphans;
      },
      limit);
}

void ChildReaper::AwaitSignal() {
  signals_.async_wait([this](const boost::system::error_code& error, int /*signal*/) {
    if (error) return;
    AwaitSignal();
    Reap();
  });
}

void ChildReaper::Reap() {
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    const auto child = children_.find(pid);
    if (child == children_.end()) continue;
    const EndHandler on_end = std::move(child->second.on_end);
    children_.erase(child);
    ProcessEnd end;
    if (WIFSIGNALED(status)) {
      end.signal = WTERMSIG(status);
    } else {
      end.exit_code = WEXITSTATUS(status);
    }
    on_end(end);
  }
}

}  // namespace ringmaster
