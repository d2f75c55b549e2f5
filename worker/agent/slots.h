#pragma once

// What an agent decides about its slots: which rank process runs in each, which epoch it was given,
// which attach carries its output and exit. Events in, actions out through SlotActions; no I/O, no
// threads, no time of its own, so that every order of events can be tested. agent.h wires it to
// processes and sockets.
//
// A slot's process is *fresh* until it is given an epoch, and never serves a second one. With our
// own trainer the agent starts fresh ranks early and they load while nobody waits; any other
// program is run by its attach.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/control/membership.h"
#include "common/control/messages.h"
#include "worker/agent/child_reaper.h"

namespace ringmaster::agent {

using AttachId = std::int64_t;  // one per connection of an attach, never reused

// What the agent does on behalf of Slots. Messages to somebody who is not connected are dropped:
// what matters is repeated (see Slots::OnWelcome).
class SlotActions {
 public:
  virtual ~SlotActions() = default;
  virtual void SendToLauncher(const control::Message& message) = 0;
  virtual void SendToRank(int slot, const control::Message& message) = 0;
  virtual void SendToAttach(AttachId attach, const control::Message& message) = 0;
  // SIGTERM to the attach process, which hands it on to its program; SIGKILL after the grace
  // period.
  virtual void StopAttach(AttachId attach, std::chrono::milliseconds grace) = 0;
  virtual void CloseAttach(AttachId attach) = 0;
  // The error says why the program cannot be executed.
  virtual Result<void> StartRank(int slot) = 0;
  virtual void StopRank(int slot, std::chrono::milliseconds grace) = 0;
  // Output that no attach carries. `rank` is -1 where it never had one.
  virtual void PrintLocally(int slot, int rank, bool is_stderr, std::string_view data) = 0;
};

struct SlotsOptions {
  std::string pod_uid;
  std::string pod;
  std::string node;
  int slots = 1;
  bool managed = true;  // LaunchSpec::IsManagedTrainer
  std::string program;  // for messages
};

class Slots {
 public:
  // `actions` outlives this.
  Slots(SlotsOptions options, SlotActions* actions);

  // Starts a fresh rank per slot (our own trainer only).
  void Preload();

  // False for a launcher that was superseded: its term is below an epoch this agent accepted. Else
  // everything that still holds is repeated to the launcher, which may have missed it.
  [[nodiscard]] bool OnWelcome(std::int64_t term);
  void OnStartEpoch(const control::StartEpoch& start);
  void OnStopEpoch(const control::StopEpoch& stop);
  void OnRelease(const control::Release& release);
  void OnStoreValues(const control::StoreValues& values);

  void OnRankHello(int slot);
  // RankProgress, RankDone, StoreSet or StoreGet of the rank. False for any other message.
  [[nodiscard]] bool OnRankMessage(int slot, const control::Message& message);
  void OnRankOutput(int slot, bool is_stderr, std::string_view data);
  void OnRankExit(int slot, ProcessEnd end, std::vector<std::string> last_lines);

  void OnAttach(AttachId attach, const control::AttachHello& hello);
  void OnAttachExit(AttachId attach, const control::AttachExit& exit);
  void OnAttachGone(AttachId attach);

  // Ends all ranks; no fresh ones are started from here on. `leaving` is told to the launcher
  // unless it is empty.
  void End(std::chrono::milliseconds grace, const std::string& leaving);

  bool AnyRankRunning() const;
  const control::Epoch& highest_epoch() const { return highest_epoch_; }

 private:
  struct Assignment {
    control::Epoch epoch;
    std::int64_t cohort = 0;
    int rank = -1;
  };
  struct Output {
    bool is_stderr = false;
    std::string data;
  };
  struct Slot {
    bool running = false;
    bool stopping = false;
    bool connected = false;  // its rank said hello
    bool done = false;
    std::optional<Assignment> wanted;  // of the newest epoch
    std::optional<Assignment>
        given;  // what the running process was told; nothing while it is fresh
    std::optional<control::RankExited> exit_report;
    std::vector<Output> held_output;  // of a fresh rank: it has no attach yet
    std::size_t held_bytes = 0;
    std::vector<control::Message>
        store_requests;                    // StoreSets and unanswered StoreGets of this epoch
    std::vector<control::Member> members;  // of the wanted epoch
  };
  struct Attach {
    control::AttachHello hello;
    bool exited = false;
  };

  bool ValidSlot(int slot) const { return slot >= 0 && slot < options_.slots; }
  void StartFresh(int slot);
  void Give(int slot);
  void GiveDirect(int slot);
  void ReportExit(int slot, const std::optional<Assignment>& assignment, control::RankExit exit);
  void FlushHeldOutput(int slot);
  void Deliver(int slot, const Assignment& assignment, bool is_stderr, std::string_view data);
  std::vector<AttachId> AttachesOf(int slot, std::int64_t cohort) const;
  void SendAttachGo(int slot, const Assignment& assignment);
  void RefuseAttach(AttachId attach, const std::string& reason);

  const SlotsOptions options_;
  SlotActions* const actions_;
  std::vector<Slot> slots_;
  std::map<AttachId, Attach> attaches_;
  control::Epoch highest_epoch_;
  std::int64_t term_ = 0;
  bool ending_ = false;
  std::string leaving_;
};

}  // namespace ringmaster::agent
