#pragma once

// Slots of a direct job: mpirun starts attach, attach runs the program when the
// gate opens. A program lives in one epoch; any change of the world ends it (decisions.md, D13).

#include <array>
#include <optional>
#include <vector>

#include "worker/agent/slots/slots.h"

namespace ringmaster::agent {

class DirectSlots final : public Slots {
 public:
  DirectSlots(const SlotsOptions& options, SlotActions* actions);

  void OnStartEpoch(const control::StartEpoch& start) override;
  void OnStopEpoch(const control::StopEpoch& stop) override;
  void OnAttachOutput(AttachId attach, const control::RankOutput& output) override;
  void OnAttachExit(AttachId attach, const control::AttachExit& exit) override;
  bool Drained() const override { return true; }  // nothing can go on without it
  std::vector<RankStanding> InWorld() const override;
  bool AnyRankRunning() const override;

 private:
  struct Slot {
    bool running = false;
    std::optional<control::Epoch> epoch;  // the one its program was started in
    std::int64_t cohort = 0;
    int rank = -1;
    std::array<bool, 2> in_line{};  // by stream: what came last had no end of line
    std::optional<control::RankExited> exit_report;
  };

  void RepeatToLauncher(std::int64_t term) override;
  void OnDetached(const Attach& attach) override;
  void EndRanks(std::chrono::milliseconds grace) override;
  std::vector<AttachId> AttachesOf(int slot, std::int64_t cohort) const;
  void ReportExit(int slot, control::RankExit exit);

  std::vector<Slot> slots_;
};

}  // namespace ringmaster::agent
