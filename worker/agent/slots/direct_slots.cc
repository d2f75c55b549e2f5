#include "worker/agent/slots/direct_slots.h"

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "common/control/exit_codes.h"

namespace ringmaster::agent {

namespace {

// Returns the place of `member` in the world that `start` describes.
ProgramPlace PlaceOf(const control::StartEpoch& start, const control::Member& member) {
  ProgramPlace place{.epoch = start.epoch,
                     .rank = member.rank,
                     .world_size = static_cast<int>(start.members.size()),
                     .slot = member.slot,
                     .slots = 0,
                     .master_address = start.members.front().address};
  place.nodes = 0;
  const std::string* worker = nullptr;  // a worker's ranks are consecutive
  for (const control::Member& other : start.members) {
    const bool here = other.pod_uid == member.pod_uid;
    if (worker == nullptr || *worker != other.pod_uid) {
      if (here) place.node_rank = place.nodes;
      ++place.nodes;
      worker = &other.pod_uid;
    }
    if (here) ++place.slots;
  }
  return place;
}

}  // namespace

DirectSlots::DirectSlots(const SlotsOptions& options, SlotActions* actions)
    : Slots(options, actions) {
  slots_.reserve(static_cast<std::size_t>(options.slots));
  for (int slot = 0; slot < options.slots; ++slot) {
    slots_.emplace_back(SlotOutput(slot, options.pod, actions));
  }
}

void DirectSlots::RepeatToLauncher(std::int64_t term) {
  for (const Slot& slot : slots_) {
    if (slot.exit_report.has_value()) actions_->SendToLauncher(*slot.exit_report);
  }
  // The launcher that started the programs was lost, and the next one must not start them again.
  if (world_.epoch.term < term && Completed()) {
    control::WorldReport report{world_.epoch, {}, {}};
    if (world_.members.front().pod_uid == options_.pod_uid) report.members = world_.members;
    actions_->SendToLauncher(report);
  }
  OnLauncherDrained();
}

// Returns whether the programs of the newest world have all exited with code 0 here, although
// neither the launcher, mpirun nor this agent ended them. A program may exit with code 0 after
// SIGTERM.
bool DirectSlots::Completed() const {
  if (world_.members.empty() || world_.cohort != control::kStartedByAgents) return false;
  if (ending_ || !leaving_.empty()) return false;
  return std::none_of(slots_.begin(), slots_.end(), [this](const Slot& slot) {
    const bool exited = slot.exit_report.has_value() && slot.exit_report->exit.Clean();
    return slot.epoch == world_.epoch && (slot.stopped || !exited);
  });
}

void DirectSlots::OnStartEpoch(const control::StartEpoch& start) {
  if (ending_ || !Accept(start.epoch, "StartEpoch")) return;
  for (int index = 0; index < options_.slots; ++index) {
    Slot& slot = slots_[static_cast<std::size_t>(index)];
    const control::Member* const member = FindMember(start.members, index);
    if (member == nullptr || slot.epoch == start.epoch) continue;
    if (world_.epoch < start.epoch) world_ = start;
    slot.epoch = start.epoch;
    slot.cohort = start.cohort;
    slot.rank = member->rank;
    slot.stopped = false;
    slot.exit_report.reset();
    if (start.cohort == control::kStartedByAgents) {
      slot.running = true;
      slot.next = PlaceOf(start, *member);
      if (slot.own_process) {
        actions_->StopRank(index, {});
      } else {
        StartNext(index);
      }
      continue;
    }
    // mpirun passes the output to the launcher's log; the agent prints it to the worker's log.
    slot.output.GoTo({.way = SlotOutput::Way::kLocal, .rank = slot.rank});
    const std::vector<AttachId> attaches = AttachesOf(index, slot.cohort);
    slot.running = !attaches.empty();
    for (const AttachId attach : attaches) {
      actions_->SendToAttach(attach, control::AttachGo{start.epoch, slot.rank});
    }
  }
}

// Starts the program. The launcher's log shows the output of rank 0 only.
void DirectSlots::StartNext(int index) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  const ProgramPlace place = *std::exchange(slot.next, std::nullopt);
  slot.output.GoTo({.way = place.rank == 0 ? SlotOutput::Way::kLauncher : SlotOutput::Way::kLocal,
                    .rank = place.rank});
  const Result<void> started = actions_->StartProgram(place);
  slot.own_process = started.ok();
  if (started.ok()) return;
  slot.running = false;
  control::RankExit exit;
  exit.exit_code = started.error().kind == ErrorKind::kUnavailable ? control::kExitNotStarted
                                                                   : control::kExitCannotStart;
  exit.last_lines = {started.error().message};
  Report(index, -1, std::move(exit));  // rank -1: the program did not run
}

void DirectSlots::OnStopEpoch(const control::StopEpoch& stop) {
  for (int index = 0; index < options_.slots; ++index) {
    Slot& slot = slots_[static_cast<std::size_t>(index)];
    if (!slot.epoch.has_value() || *slot.epoch > stop.epoch) continue;
    slot.stopped = slot.stopped || slot.running;
    if (slot.next.has_value()) {
      slot.next.reset();
      slot.running = false;
      control::RankExit never_started;
      never_started.signal = SIGTERM;
      ReportExit(index, std::move(never_started));
    }
    if (slot.own_process) {
      actions_->StopRank(index, std::chrono::milliseconds(stop.grace_millis));
    }
    for (const AttachId attach : AttachesOf(index, slot.cohort)) {
      actions_->StopAttach(attach, std::chrono::milliseconds(stop.grace_millis));
    }
  }
}

void DirectSlots::OnRankOutput(int index, bool is_stderr, std::string_view data) {
  slots_[static_cast<std::size_t>(index)].output.Add(is_stderr, data);
}

void DirectSlots::OnLauncherDrained() {
  for (Slot& slot : slots_) slot.output.Flow();
}

void DirectSlots::OnRankExit(int index, const RankEnd& end) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  slot.own_process = false;
  slot.output.EndLines();
  if (slot.next.has_value() && !ending_) return StartNext(index);
  if (std::exchange(slot.next, std::nullopt).has_value()) slot.running = false;
  if (!slot.running) return;
  slot.running = false;
  control::RankExit exit;
  exit.exit_code = end.end.exit_code;
  exit.signal = end.end.signal;
  exit.last_lines = end.last_lines;
  ReportExit(index, std::move(exit));
}

void DirectSlots::OnAttachOutput(AttachId id, const control::RankOutput& output) {
  const auto attach = attaches_.find(id);
  if (attach == attaches_.end() || !ValidSlot(attach->second.hello.slot)) return;
  OnRankOutput(attach->second.hello.slot, output.is_stderr, output.data);
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
  slot.output.EndLines();
  ReportExit(index, message.exit);
}

void DirectSlots::OnDetached(const Attach& attach) {
  Slot& slot = slots_[static_cast<std::size_t>(attach.hello.slot)];
  if (!RunsProgram(attach)) return;
  slot.running = false;
  control::RankExit exit;
  exit.signal = SIGKILL;
  exit.last_lines = {"the attach of " + options_.program +
                     " was killed before it reported the exit of the program"};
  ReportExit(attach.hello.slot, std::move(exit));
}

void DirectSlots::EndRanks(std::chrono::milliseconds grace) {
  for (const auto& [id, attach] : attaches_) {
    if (!attach.exited) actions_->StopAttach(id, grace);
  }
  for (int index = 0; index < options_.slots; ++index) {
    const Slot& slot = slots_[static_cast<std::size_t>(index)];
    if (slot.own_process) actions_->StopRank(index, grace);
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
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.running || slot.own_process; });
}

bool DirectSlots::FormerProgramsRun() const {
  return std::any_of(
             attaches_.begin(), attaches_.end(),
             [](const auto& entry) { return entry.second.former && !entry.second.exited; }) ||
         std::any_of(slots_.begin(), slots_.end(), [this](const Slot& slot) {
           return slot.own_process && slot.epoch->term < term();
         });
}

bool DirectSlots::RunsProgram(const Attach& attach) const {
  if (attach.exited || !ValidSlot(attach.hello.slot)) return false;
  const Slot& slot = slots_[static_cast<std::size_t>(attach.hello.slot)];
  return slot.running && slot.cohort == attach.hello.cohort;
}

std::vector<AttachId> DirectSlots::AttachesOf(int index, std::int64_t cohort) const {
  std::vector<AttachId> found;
  for (const auto& [id, attach] : attaches_) {
    if (attach.hello.slot == index && attach.hello.cohort == cohort) found.push_back(id);
  }
  return found;
}

void DirectSlots::ReportExit(int index, control::RankExit exit) {
  Report(index, slots_[static_cast<std::size_t>(index)].rank, std::move(exit));
}

void DirectSlots::Report(int index, int rank, control::RankExit exit) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  exit.out_of_memory = actions_->LackOfMemory({exit.exit_code, exit.signal});
  slot.exit_report = control::RankExited{*slot.epoch, OfThisWorker(index, rank, std::move(exit))};
  actions_->SendToLauncher(*slot.exit_report);
}

}  // namespace ringmaster::agent
