#pragma once

// The rank processes of this worker's slots: starts them with their environment, reads their
// output, and reports how they ended and how long they lived. slots.h makes all decisions.
// Single-threaded.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/result.h"
#include "common/process/captured_process.h"
#include "common/process/child_reaper.h"
#include "worker/agent/config/config.h"
#include "worker/agent/process_table/kill_watch.h"
#include "worker/agent/process_table/rank_page.h"
#include "worker/agent/slots/slot_actions.h"

namespace ringmaster::agent {

class RankProcesses {
 public:
  struct Handlers {
    std::function<void(int slot, bool is_stderr, std::string_view data)> on_output;
    // Called when SIGKILL is ending the slot's process. on_end follows once the memory is freed.
    std::function<void(int slot, const std::vector<std::string>& last_lines)> on_killed;
    std::function<void(int slot, const RankEnd& end)> on_end;
    std::function<void(int slot)> on_due;  // for CallAfter()
  };

  // `io`, `reaper` and `config` must outlive this object.
  RankProcesses(boost::asio::io_context& io, ChildReaper& reaper, const Config& config,
                Handlers handlers);

  // Sets the GPUs that the ranks of each slot may see (RankEnvironment). Applies to ranks that
  // start after this call. An empty list means all GPUs of the container.
  void SetGpus(std::vector<std::string> gpus) { gpus_ = std::move(gpus); }
  // The GPUs of the slot, as set with SetGpus().
  std::string Gpus(int slot) const;

  // Starts a rank that uses the rank protocol and reports its position. Both Start() REQUIRE that
  // the slot's last process has ended, and return the errors of SlotActions::StartRank.
  Result<void> Start(int slot);
  // Starts a program without the rank protocol. Its rendezvous is at `port` of rank 0's host.
  Result<void> Start(const ProgramPlace& place, int port);
  void Stop(int slot, std::chrono::milliseconds grace);
  // Kills the slot's process at once, without capturing its stacks.
  void Kill(int slot);
  // Runs on_due for the slot once, after the delay. A new call replaces an earlier one.
  void CallAfter(int slot, std::chrono::milliseconds delay);
  // Stops or resumes reading the output of the slot's process.
  void PauseOutput(int slot, bool paused);
  // Returns the process group of the slot's process, or -1.
  pid_t Group(int slot) const;

  // Records which process of the group is the slot's rank, according to the rank's hello.
  void SetRank(int slot, pid_t process);
  // Returns the position that the slot's rank reports; nothing if it reports none.
  std::optional<RankPage::Reading> Position(int slot) const;
  // Returns whether a signal or a debugger has stopped the slot's rank.
  bool Stopped(int slot) const;
  // Returns how long the slot's process has run; zero if the slot has no process.
  std::chrono::milliseconds Age(int slot) const;
  // Reports the stacks of the slot's process, then kills the process. Later calls do nothing.
  void EndHanging(int slot, std::function<void(const std::string& stack)> on_stack);

 private:
  Result<void> Launch(int slot, std::vector<std::string> environment,
                      std::shared_ptr<const RankPage> page);

  struct Rank {
    std::shared_ptr<CapturedProcess> process;
    std::chrono::steady_clock::time_point started;
    std::shared_ptr<const RankPage> page;  // null: the rank reports no position
    pid_t rank = -1;                       // the process that sent a hello; -1: none yet
    bool ending = false;                   // EndHanging is ending the process
    std::unique_ptr<KillWatch> killed{};   // null: only the exit is detected
  };

  boost::asio::io_context& io_;
  ChildReaper& reaper_;
  const Config& config_;
  const int cpus_;
  std::vector<std::string> gpus_;  // by slot
  const Handlers handlers_;
  std::map<int, Rank> ranks_;                                      // by slot
  std::map<int, std::unique_ptr<boost::asio::steady_timer>> due_;  // by slot
};

}  // namespace ringmaster::agent
