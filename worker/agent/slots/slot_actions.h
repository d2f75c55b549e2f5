#pragma once

// The interface through which slots (slots.h) request actions. Implemented by app/slot_actions.cc,
// and in tests by a fake that records the requests.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/control/membership.h"
#include "common/control/messages.h"
#include "common/process/child_reaper.h"

namespace ringmaster::agent {

using AttachId = std::int64_t;  // one per connection of an attach, never reused

// The place of a program in the world for which it is started.
struct ProgramPlace {
  control::Epoch epoch;
  int rank = 0;
  int world_size = 1;
  int slot = 0;
  int slots = 1;  // number of the world's slots on this worker
  int node_rank = 0;
  int nodes = 1;
  std::string master_address;  // address of rank 0
};

// Messages are dropped if there is no connection. Slots::OnWelcome repeats the important
// ones.
class SlotActions {
 public:
  virtual ~SlotActions() = default;
  virtual void SendToLauncher(const control::Message& message) = 0;
  // Reconnects to get the whole world. Call if the launcher sent changes to an unknown world.
  virtual void DialLauncherAgain(const std::string& reason) = 0;
  // Returns false while the launcher is disconnected or has not yet accepted earlier output. Output
  // then waits until Slots::OnLauncherDrained.
  virtual bool LauncherTakesOutput() const = 0;
  // Returns false while the launcher is disconnected.
  virtual bool LauncherListens() const = 0;
  virtual void SendToRank(int slot, const control::Message& message) = 0;
  virtual void SendToAttach(AttachId attach, const control::Message& message) = 0;
  // Sends SIGTERM to the attach process, which passes it to its program. Sends SIGKILL after the
  // grace period.
  virtual void StopAttach(AttachId attach, std::chrono::milliseconds grace) = 0;
  virtual void CloseAttach(AttachId attach) = 0;
  // kUnavailable: the machine cannot start a rank now, but may later. Any other error states why
  // the program cannot be executed.
  virtual Result<void> StartRank(int slot) = 0;
  // Starts a program that runs in one world. Returns the same errors as StartRank.
  virtual Result<void> StartProgram(const ProgramPlace& place) = 0;
  // Calls Slots::OnRestartDue after this delay. At most one call per slot is pending.
  virtual void RestartRankAfter(int slot, std::chrono::milliseconds delay) = 0;
  virtual void StopRank(int slot, std::chrono::milliseconds grace) = 0;
  // Ends the slot's hanging process after sending its stacks (RankStack) to the launcher.
  virtual void EndHangingRank(int slot, const std::string& start, const std::string& reason) = 0;
  // Returns the out-of-memory kill that caused the exit, if any (oom_watch.h). Call once per exit.
  virtual std::optional<control::OutOfMemory> LackOfMemory(const ProcessEnd& end) = 0;
  // Prints output to the worker's log. `rank` is -1 if the process has no rank.
  virtual void PrintLocally(int slot, int rank, bool is_stderr, std::string_view data) = 0;
};

// How a rank process ended, and how long it had lived.
struct RankEnd {
  ProcessEnd end;
  std::chrono::milliseconds lived{0};
  std::vector<std::string> last_lines;
};

// A rank's place in the newest world with a member of this worker.
struct RankStanding {
  int slot = 0;
  int rank = -1;
  control::Epoch epoch;
};

struct SlotsOptions {
  std::string pod_uid;
  std::string pod;
  std::string node;
  int slots = 1;
  bool elastic = true;       // LaunchSpec::InPlace
  std::string program;       // for messages
  bool own_program = false;  // the program is Ringmaster's and implements the rank protocol
  std::string nonce;         // unique for this start of the agent; Member::start begins with it
};

}  // namespace ringmaster::agent
