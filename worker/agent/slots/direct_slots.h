#pragma once

// The slots of a direct job. The program lives for one epoch and ends with any change of the world
// (ADR 13). If mpirun starts attach, attach runs the program when the gate opens; otherwise the
// agent runs it.

#include <optional>
#include <utility>
#include <vector>

#include "worker/agent/slots/slot_output.h"
#include "worker/agent/slots/slots.h"

namespace ringmaster::agent {

class DirectSlots final : public Slots {
 public:
  DirectSlots(const SlotsOptions& options, SlotActions* actions);

  void OnStartEpoch(const control::StartEpoch& start) override;
  void OnStopEpoch(const control::StopEpoch& stop) override;
  void OnRankOutput(int slot, bool is_stderr, std::string_view data) override;
  void OnRankExit(int slot, const RankEnd& end) override;
  void OnLauncherDrained() override;
  void OnAttachOutput(AttachId attach, const control::RankOutput& output) override;
  void OnAttachExit(AttachId attach, const control::AttachExit& exit) override;
  bool Drained() const override { return true; }  // no world continues without this worker
  std::vector<RankStanding> InWorld() const override;
  bool AnyRankRunning() const override;
  bool FormerProgramsRun() const override;

 private:
  struct Slot {
    explicit Slot(SlotOutput its_output) : output(std::move(its_output)) {}

    bool running = false;                 // the program of `epoch` runs
    bool stopped = false;                 // StopEpoch came while it ran
    std::optional<control::Epoch> epoch;  // the epoch for which its program was started
    std::int64_t cohort = control::kStartedByAgents;
    int rank = -1;
    bool own_process = false;          // a process that this agent started is running
    std::optional<ProgramPlace> next;  // program to start once the process has ended
    SlotOutput output;
    std::optional<control::RankExited> exit_report;
  };

  void RepeatToLauncher(std::int64_t term) override;
  bool Completed() const;
  void OnDetached(const Attach& attach) override;
  bool RunsProgram(const Attach& attach) const override;
  void EndRanks(std::chrono::milliseconds grace) override;
  std::vector<AttachId> AttachesOf(int slot, std::int64_t cohort) const;
  void StartNext(int slot);
  void ReportExit(int slot, control::RankExit exit);  // reports the exit with the slot's rank
  void Report(int slot, int rank, control::RankExit exit);

  std::vector<Slot> slots_;
  control::StartEpoch world_;  // the newest world with a program of this worker
};

}  // namespace ringmaster::agent
