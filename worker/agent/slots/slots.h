#pragma once

// Decides what an agent does with its slots: which process runs in each slot, in which epoch, and
// with which attach. Takes events and returns actions through SlotActions. It does no I/O, starts
// no threads and reads no clock, so that tests can cover every order of events. agent.h connects it
// to processes and sockets.
//
// There are two kinds of slots. In an elastic job the agent starts the ranks, and they live across
// epochs (elastic_slots.h). In a direct job attach runs the program, which lives for one epoch
// (direct_slots.h). This class implements what both share: terms, attaches and the end of the job.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/control/membership.h"
#include "common/control/messages.h"
#include "worker/agent/slots/slot_actions.h"

namespace ringmaster::agent {

class Slots {
 public:
  // Creates the kind of slots that `options` requires. `actions` must outlive the slots.
  static std::unique_ptr<Slots> Make(const SlotsOptions& options, SlotActions* actions);
  virtual ~Slots() = default;

  // Starts the processes that can start before any epoch.
  virtual void Preload() {}

  // Returns false for a superseded launcher, whose term is below one that this agent followed.
  // Otherwise repeats all current reports, which the launcher may have missed.
  [[nodiscard]] bool OnWelcome(std::int64_t term);
  virtual void OnLauncherDrained() {}

  virtual void OnPrepareEpoch(const control::PrepareEpoch& /*prepare*/) {}
  virtual void OnSwitchEpoch(const control::SwitchEpoch& /*switch_epoch*/) {}
  virtual void OnStartEpoch(const control::StartEpoch& start) = 0;
  virtual void OnStopEpoch(const control::StopEpoch& stop) = 0;
  virtual void OnRelease(const control::Release& /*release*/) {}
  virtual void OnEndStalledRank(const control::EndStalledRank& /*end*/) {}
  virtual void OnStoreValues(const control::StoreValues& /*values*/) {}
  virtual void OnCheckpointGrant(const control::CheckpointGrant& /*grant*/) {}
  virtual void OnTakeCheckpoint(const control::TakeCheckpoint& /*take*/) {}
  virtual void OnChangeEpoch(const control::ChangeEpoch& /*change*/) {}
  virtual void OnTellWorld(const control::TellWorld& /*tell*/) {}

  virtual void OnRankHello(int /*slot*/) {}
  virtual void OnRankDisconnected(int /*slot*/) {
  }  // the connection closed; the process may still run
  // Returns false for a message that a rank never sends.
  [[nodiscard]] virtual bool OnRankMessage(int slot, const control::Message& message);
  virtual void OnRankOutput(int /*slot*/, bool /*is_stderr*/, std::string_view /*data*/) {}
  // Call when SIGKILL is ending the slot's process. OnRankExit follows.
  virtual void OnRankKilled(int /*slot*/, std::vector<std::string> /*last_lines*/) {}
  virtual void OnRankExit(int /*slot*/, const RankEnd& /*end*/) {}
  virtual void OnRestartDue(int /*slot*/) {}

  void OnAttach(AttachId attach, const control::AttachHello& hello);
  virtual void OnAttachOutput(AttachId /*attach*/, const control::RankOutput& /*output*/) {}
  virtual void OnAttachExit(AttachId /*attach*/, const control::AttachExit& /*exit*/) {}
  void OnAttachDisconnected(AttachId attach);

  // Tells the launcher that the Pod will terminate. Returns true if ranks are in a world. The ranks
  // train until the launcher has formed a world without them; then Drained() is true.
  [[nodiscard]] bool Leave(const std::string& reason);
  // Returns whether no rank of this worker is in a world that continues.
  virtual bool Drained() const = 0;

  // Ends all ranks and starts no more.
  void End(std::chrono::milliseconds grace);

  virtual std::vector<RankStanding> InWorld() const { return {}; }
  // Ends processes that have run for longer than `limit` and have not sent their hello. `age`
  // returns how long a slot's process has run.
  virtual void EndEndlessLoading(const std::function<std::chrono::milliseconds(int slot)>& /*age*/,
                                 std::chrono::milliseconds /*limit*/) {}

  virtual bool AnyRankRunning() const = 0;
  // Returns whether a program of an earlier launcher still runs. Until it ends, no world can start
  // on this worker, because two programs would share a GPU.
  virtual bool FormerProgramsRun() const { return false; }
  const control::Epoch& highest_epoch() const { return highest_epoch_; }

 protected:
  struct Attach {
    control::AttachHello hello;
    bool exited = false;  // its program, or the rank that it represents, has ended
    bool former = false;  // its launcher was lost; it is kept only until it exits
  };

  Slots(SlotsOptions options, SlotActions* actions);

  virtual void RepeatToLauncher(std::int64_t term) = 0;
  virtual void OnAttached(AttachId /*id*/, const control::AttachHello& /*hello*/) {}
  virtual void OnDetached(const Attach& /*attach*/) {}
  virtual bool RunsProgram(const Attach& /*attach*/) const { return false; }
  virtual void EndRanks(std::chrono::milliseconds grace) = 0;

  std::int64_t term() const { return term_; }
  bool ValidSlot(int slot) const { return slot >= 0 && slot < options_.slots; }
  // Accepts the epoch as the highest one. Returns false, and logs a line, if a higher epoch was
  // accepted before.
  bool Accept(const control::Epoch& epoch, const char* what);
  // Returns `exit` with slot, rank, Pod and node filled in.
  control::RankExit OfThisWorker(int slot, int rank, control::RankExit exit) const;
  // Returns this worker's member in `slot`, or nullptr.
  const control::Member* FindMember(const std::vector<control::Member>& members, int slot) const;

  const SlotsOptions options_;
  SlotActions* const actions_;
  std::map<AttachId, Attach> attaches_;
  control::Epoch highest_epoch_;
  bool ending_ = false;
  std::string leaving_;  // why this agent leaves; empty: it does not leave

 private:
  std::int64_t term_ = 0;
};

std::string ToText(const control::Epoch& epoch);

}  // namespace ringmaster::agent
