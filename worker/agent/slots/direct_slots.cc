#include "worker/agent/slots/direct_slots.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace ringmaster::agent {

DirectSlots::DirectSlots(const SlotsOptions& options, SlotActions* actions)
    : Slots(options, actions), slots_(static_cast<std::size_t>(options.slots)) {}

void DirectSlots::RepeatToLauncher(std::int64_t /*term*/) {
  for (const Slot& slot : slots_) {
    if (slot.exit_report.has_value()) actions_->SendToLauncher(*slot.exit_report);
  }
}

void DirectSlots::OnStartEpoch(const control::StartEpoch& start) {
  if (ending_ || !Accept(start.epoch, "StartEpoch")) return;
  for (int index = 0; index < options_.slots; ++index) {
    Slot& slot = slots_[static_cast<std::size_t>(index)];
    const control::Member* const member = FindMember(start.members, index);
    if (member == nullptr || slot.epoch == start.epoch) continue;
    slot.epoch = start.epoch;
    slot.cohort = start.cohort;
    slot.rank = member->rank;
    slot.exit_report.reset();
    const std::vector<AttachId> attaches = AttachesOf(index, slot.cohort);
    slot.running = !attaches.empty();
    for (const AttachId attach : attaches) {
      actions_->SendToAttach(attach, control::AttachGo{start.epoch, slot.rank});
    }
  }
}

void DirectSlots::OnStopEpoch(const control::StopEpoch& stop) {
  for (int index = 0; index < options_.slots; ++index) {
    const Slot& slot = slots_[static_cast<std::size_t>(index)];
    if (!slot.epoch.has_value() || *slot.epoch > stop.epoch) continue;
    for (const AttachId attach : AttachesOf(index, slot.cohort)) {
      actions_->StopAttach(attach, std::chrono::milliseconds(stop.grace_millis));
    }
  }
}

// mpirun carries it to the launcher's log; this is the worker's.
void DirectSlots::OnAttachOutput(AttachId id, const control::RankOutput& output) {
  const auto attach = attaches_.find(id);
  if (attach == attaches_.end() || output.data.empty()) return;
  const int index = attach->second.hello.slot;
  if (!ValidSlot(index)) return;
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  slot.in_line[output.is_stderr ? 1 : 0] = output.data.back() != '\n';
  actions_->PrintLocally(index, slot.rank, output.is_stderr, output.data);
}

void DirectSlots::OnAttachExit(AttachId id, const control::AttachExit& message) {
  const auto attach = attaches_.find(id);
  if (attach == attaches_.end() || attach->second.exited) return;
  attach->second.exited = true;
  const int index = attach->second.hello.slot;
  if (!ValidSlot(index)) return;
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  if (!slot.epoch.has_value() || slot.cohort != attach->second.hello.cohort) return;
  slot.running = false;
  for (const bool is_stderr : {false, true}) {
    bool& in_line = slot.in_line[is_stderr ? 1 : 0];
    if (std::exchange(in_line, false)) actions_->PrintLocally(index, slot.rank, is_stderr, "\n");
  }
  ReportExit(index, message.exit);
}

void DirectSlots::OnDetached(const Attach& attach) {
  Slot& slot = slots_[static_cast<std::size_t>(attach.hello.slot)];
  if (attach.exited || !slot.running || slot.cohort != attach.hello.cohort) return;
  slot.running = false;
  control::RankExit exit;
  exit.signal = SIGKILL;
  exit.last_lines = {"the attach of " + options_.program +
                     " was killed before it could report how the program ended"};
  ReportExit(attach.hello.slot, std::move(exit));
}

void DirectSlots::EndRanks(std::chrono::milliseconds grace) {
  for (const auto& [id, attach] : attaches_) {
    if (!attach.exited) actions_->StopAttach(id, grace);
  }
}

std::vector<RankStanding> DirectSlots::InWorld() const {
  std::vector<RankStanding> standings;
  for (int index = 0; index < options_.slots; ++index) {
    const Slot& slot = slots_[static_cast<std::size_t>(index)];
    if (slot.running) standings.push_back({.slot = index, .rank = slot.rank, .epoch = *slot.epoch});
  }
  return standings;
}

bool DirectSlots::AnyRankRunning() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.running; });
}

std::vector<AttachId> DirectSlots::AttachesOf(int index, std::int64_t cohort) const {
  std::vector<AttachId> found;
  for (const auto& [id, attach] : attaches_) {
    if (attach.hello.slot == index && attach.hello.cohort == cohort) found.push_back(id);
  }
  return found;
}

void DirectSlots::ReportExit(int index, control::RankExit exit) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  slot.exit_report =
      control::RankExited{*slot.epoch, OfThisWorker(index, slot.rank, std::move(exit))};
  actions_->SendToLauncher(*slot.exit_report);
}

}  // namespace ringmaster::agent
