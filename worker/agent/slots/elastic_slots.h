#pragma once

// The slots of an elastic job. The agent starts one rank process per slot, and the process loads
// before a world needs it. The process keeps its model and state from epoch to epoch. The agent
// restarts a process that dies (common/control/protocol.md).
//
//   start ─► loading ── RankHello ─► ready ── StartEpoch ─► in a world ── Release, StopEpoch ─► end
//              ▲                                             │   ▲ └ StartEpoch, with its state
//              └─────────── died by itself ──────────────────┘
//
// An attach stays connected to its slot even if a process in a world fails. It ends when the slot's
// process ends as requested.
//
// Sources: elastic_slots.cc (processes, attaches, output), elastic_world.cc (epochs).

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "worker/agent/slots/restart_policy.h"
#include "worker/agent/slots/slot_output.h"
#include "worker/agent/slots/slots.h"
#include "worker/agent/slots/store_requests.h"

namespace ringmaster::agent {

class ElasticSlots final : public Slots {
 public:
  ElasticSlots(const SlotsOptions& options, SlotActions* actions);

  void Preload() override;
  void OnLauncherDrained() override;
  void OnPrepareEpoch(const control::PrepareEpoch& prepare) override;
  void OnSwitchEpoch(const control::SwitchEpoch& switch_epoch) override;
  void OnStartEpoch(const control::StartEpoch& start) override;
  void OnChangeEpoch(const control::ChangeEpoch& change) override;
  void OnTellWorld(const control::TellWorld& tell) override;
  void OnStopEpoch(const control::StopEpoch& stop) override;
  void OnRelease(const control::Release& release) override;
  void OnStoreValues(const control::StoreValues& values) override;
  void OnEndStalledRank(const control::EndStalledRank& end) override;
  std::vector<RankStanding> InWorld() const override;
  void EndEndlessLoading(const std::function<std::chrono::milliseconds(int slot)>& age,
                         std::chrono::milliseconds limit) override;
  void OnCheckpointGrant(const control::CheckpointGrant& grant) override;
  void OnTakeCheckpoint(const control::TakeCheckpoint& take) override;
  void OnRankHello(int slot) override;
  void OnRankDisconnected(int slot) override;
  [[nodiscard]] bool OnRankMessage(int slot, const control::Message& message) override;
  void OnRankOutput(int slot, bool is_stderr, std::string_view data) override;
  void OnRankKilled(int slot, std::vector<std::string> last_lines) override;
  void OnRankExit(int slot, const RankEnd& end) override;
  void OnRestartDue(int slot) override;
  bool Drained() const override;
  bool AnyRankRunning() const override;

 private:
  // The epoch, cohort and rank of a process in a world.
  struct Place {
    control::Epoch epoch;
    std::int64_t cohort = 0;
    int rank = -1;
  };
  // The rank's reports about its assigned epoch, kept while they are valid. RankDone is kept even
  // after the exit of a released rank.
  struct Reports {
    std::optional<control::RankDone> done;
    std::optional<control::RankAtBoundary> boundary;
    std::optional<control::RankBroken> broken;
    std::optional<control::CheckpointWritten> written;  // kept until the launcher's grant
    StoreRequests store;
  };
  struct Slot {
    explicit Slot(SlotOutput slot_output) : output(std::move(slot_output)) {}
    std::string start;  // Member::start of the current or the last process
    bool running = false;
    bool connected = false;  // the process has sent its hello
    bool stopping = false;   // StopEpoch is stopping the process
    bool released = false;
    bool given_up = false;          // the process ended and is not restarted
    std::optional<Place> wanted;    // place from StartEpoch, not sent to the process yet
    std::optional<Place> assigned;  // the last place sent to this process; empty: none yet
    bool gate_open = false;         // the process was in a world, so its attach may print output
    Reports reported;
    // Kept across epochs, for as long as the process runs.
    std::optional<control::CheckpointDone> checkpoint;
    std::optional<control::RankBegan> began;
    std::map<std::string, control::RankProtection> unprotected;  // by kind
    std::optional<control::RankExited> exit_report;  // newest exit, until an epoch supersedes it
    std::optional<control::RankExit> killed;         // exit reported while the process is ending
    RestartPolicy restart;
    SlotOutput output;
  };

  Slot& At(int slot) { return slots_[static_cast<std::size_t>(slot)]; }

  // elastic_slots.cc
  void OnProtection(int slot, control::RankProtection protection);
  void OnAttached(AttachId id, const control::AttachHello& hello) override;
  void OnDetached(const Attach& attach) override;
  void EndRanks(std::chrono::milliseconds grace) override;
  void StartFresh(int slot);
  void OnCannotStart(int slot, const Error& error);
  void ReportExit(int slot, control::RankExit exit);
  void EndAttaches(int slot, const control::RankExit& exit);
  AttachId AttachOf(int slot) const;
  void Route(int slot);

  // elastic_world.cc
  // Returns the slot whose process has this rank in this epoch; nothing if there is none.
  std::optional<int> SlotOf(const control::Epoch& epoch, int rank) const;
  void RepeatToLauncher(std::int64_t term) override;
  // Returns the report of the newest world, with these members.
  control::WorldReport ReportOfWorld(std::vector<control::Member> members) const;
  void Join(int slot, const control::Member& member);
  void JoinTooLate(int slot, const control::Member& member);
  void Assign(int slot);
  void SendAttachGo(int slot, const Place& place);

  std::vector<Slot> slots_;
  control::StartEpoch world_;  // the newest world with a member of this worker
  control::Epoch prepared_;    // the epoch of the newest PrepareEpoch
  control::Epoch released_;    // the epoch of the newest Release
  std::int64_t starts_ = 0;    // number of rank processes started
};

}  // namespace ringmaster::agent
