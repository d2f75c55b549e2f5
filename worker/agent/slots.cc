#include "worker/agent/slots.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/base/log.h"

namespace ringmaster::agent {
namespace {

// What a fresh rank may print before it has an attach; more goes to the agent's own output.
constexpr std::size_t kMaxHeldBytes = 256 * 1024;

// For ranks of an older epoch when a newer one starts without a StopEpoch in between (a new
// launcher).
constexpr std::chrono::milliseconds kSupersededGrace{1000};


std::string ToText(const control::Epoch& epoch) {
  return std::to_string(epoch.term) + '.' + std::to_string(epoch.number);
}

}  // namespace

Slots::Slots(SlotsOptions options, SlotActions* actions)
    : options_(std::move(options)),
      actions_(actions),
      slots_(static_cast<std::size_t>(options_.slots)) {}

void Slots::Preload() {
  if (!options_.managed) return;
  for (int slot = 0; slot < options_.slots; ++slot) StartFresh(slot);
}

bool Slots::OnWelcome(std::int64_t term) {
  if (term < highest_epoch_.term) return false;
  if (term > term_ && term_ != 0) {
    // They belong to the mpirun of a launcher that is gone; the ranks go on until the new one
    // decides.
    for (const auto& [id, attach] : attaches_) actions_->CloseAttach(id);
    attaches_.clear();
  }
  term_ = term;
  for (const auto& [id, attach] : attaches_) {
    actions_->SendToLauncher(control::SlotAttached{attach.hello.cohort, attach.hello.slot,
                                                   attach.hello.mpi_rank,
                                                   attach.hello.mpi_world_size});
  }
  for (const Slot& slot : slots_) {
    if (slot.given.has_value() && slot.given->epoch.term == term) {
      for (const control::Message& request : slot.store_requests) {
        actions_->SendToLauncher(request);
      }
    }
    if (slot.done) {
      actions_->SendToLauncher(control::RankDone{slot.given->epoch, slot.given->rank});
    }
    if (slot.exit_report.has_value()) actions_->SendToLauncher(*slot.exit_report);
  }
  if (!leaving_.empty()) actions_->SendToLauncher(control::AgentLeaving{leaving_});
  return true;
}

void Slots::OnStartEpoch(const control::StartEpoch& start) {
  if (ending_) return;
  if (start.epoch < highest_epoch_) {
    LogWarn("Refused an epoch below the highest one",
            {{"epoch", ToText(start.epoch)}, {"highest", ToText(highest_epoch_)}});
    return;
  }
  highest_epoch_ = start.epoch;
  for (int index = 0; index < options_.slots; ++index) {
    Slot& slot = slots_[static_cast<std::size_t>(index)];
    const auto member = std::find_if(
        start.members.begin(), start.members.end(), [&](const control::Member& candidate) {
          return candidate.pod_uid == options_.pod_uid && candidate.slot == index;
        });
    if (member == start.members.end()) {
      slot.wanted.reset();
    } else if (!slot.wanted.has_value() || slot.wanted->epoch != start.epoch) {
      slot.wanted = Assignment{start.epoch, start.cohort, member->rank};
      // What is left of a fresh rank that ended by itself becomes its end in this epoch.
      if (slot.given.has_value()) slot.exit_report.reset();
      if (slot.given.has_value() && !slot.running) slot.given.reset();
      slot.members = start.members;
    }
    if (slot.given.has_value() && slot.given->epoch < start.epoch) {
      if (options_.managed && slot.running) {
        slot.stopping = true;
        actions_->StopRank(index, kSupersededGrace);
      }
      if (!options_.managed) slot.given.reset();
    }
    if (slot.wanted.has_value()) options_.managed ? Give(index) : GiveDirect(index);
  }
}

void Slots::OnStopEpoch(const control::StopEpoch& stop) {
  const std::chrono::milliseconds grace(stop.grace_millis);
  for (int index = 0; index < options_.slots; ++index) {
    Slot& slot = slots_[static_cast<std::size_t>(index)];
    if (slot.wanted.has_value() && slot.wanted->epoch <= stop.epoch) slot.wanted.reset();
    const bool ends = slot.given.has_value() && slot.given->epoch <= stop.epoch;
    if (!options_.managed) {
      if (!ends) continue;
      for (const AttachId attach : AttachesOf(index, slot.given->cohort)) {
        actions_->StopAttach(attach, grace);
      }
    } else if (!slot.running) {
      StartFresh(index);
    } else if (ends) {
      slot.stopping = true;
      actions_->StopRank(index, grace);
    }
  }
}

void Slots::OnRelease(const control::Release& release) {
  for (int index = 0; index < options_.slots; ++index) {
    const Slot& slot = slots_[static_cast<std::size_t>(index)];
    if (slot.running && slot.given.has_value() && slot.given->epoch == release.epoch) {
      actions_->SendToRank(index, release);
    }
  }
}

void Slots::OnStoreValues(const control::StoreValues& values) {
  for (int index = 0; index < options_.slots; ++index) {
    Slot& slot = slots_[static_cast<std::size_t>(index)];
    if (!slot.given.has_value() || slot.given->epoch != values.epoch ||
        slot.given->rank != values.rank) {
      continue;
    }
    std::erase_if(slot.store_requests, [&](const control::Message& request) {
      const auto* get = std::get_if<control::StoreGet>(&request);
      return get != nullptr && get->id == values.id;
    });
    actions_->SendToRank(index, values);
  }
}

void Slots::OnRankHello(int index) {
  if (!ValidSlot(index)) return;
  slots_[static_cast<std::size_t>(index)].connected = true;
  Give(index);
}

bool Slots::OnRankMessage(int index, const control::Message& message) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  const auto current = [&](const control::Epoch& epoch) {
    return slot.given.has_value() && slot.given->epoch == epoch;
  };
  if (const auto* progress = std::get_if<control::RankProgress>(&message)) {
    if (current(progress->epoch)) actions_->SendToLauncher(message);
  } else if (const auto* done = std::get_if<control::RankDone>(&message)) {
    if (!current(done->epoch)) return true;
    slot.done = true;
    actions_->SendToLauncher(control::RankDone{slot.given->epoch, slot.given->rank});
  } else if (const auto* set = std::get_if<control::StoreSet>(&message)) {
    if (!current(set->epoch)) return true;
    slot.store_requests.push_back(message);
    actions_->SendToLauncher(message);
  } else if (const auto* get = std::get_if<control::StoreGet>(&message)) {
    if (!current(get->epoch)) return true;
    control::StoreGet request = *get;
    request.rank = slot.given->rank;
    slot.store_requests.emplace_back(request);
    actions_->SendToLauncher(request);
  } else {
    return false;
  }
  return true;
}

void Slots::OnRankOutput(int index, bool is_stderr, std::string_view data) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  if (slot.given.has_value()) {
    Deliver(index, *slot.given, is_stderr, data);
  } else if (slot.held_bytes + data.size() > kMaxHeldBytes) {
    actions_->PrintLocally(index, -1, is_stderr, data);
  } else {
    slot.held_bytes += data.size();
    slot.held_output.push_back({is_stderr, std::string(data)});
  }
}

void Slots::OnRankExit(int index, ProcessEnd end, std::vector<std::string> last_lines) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  const bool superseded = slot.stopping;
  const std::optional<Assignment> assignment = slot.given.has_value() ? slot.given : slot.wanted;
  slot.running = slot.stopping = slot.connected = false;
  if (assignment.has_value() || ending_) FlushHeldOutput(index);
  control::RankExit exit;
  exit.slot = index;
  exit.exit_code = end.exit_code;
  exit.signal = end.signal;
  exit.last_lines = std::move(last_lines);
  ReportExit(index, assignment, std::move(exit));
  if (superseded && !ending_) StartFresh(index);
}

void Slots::OnAttach(AttachId id, const control::AttachHello& hello) {
  if (hello.direct == options_.managed) {
    RefuseAttach(id, options_.managed ? "this job runs our own trainer, and its agent starts it"
                                      : "this job's program is started by attach");
    return;
  }
  attaches_[id] = Attach{hello};
  // Reported whatever it says: a slot that does not exist, or one attached twice, is for the
  // launcher's gate to judge.
  actions_->SendToLauncher(
      control::SlotAttached{hello.cohort, hello.slot, hello.mpi_rank, hello.mpi_world_size});
  if (!ValidSlot(hello.slot)) return;
  const Slot& slot = slots_[static_cast<std::size_t>(hello.slot)];
  if (options_.managed && slot.wanted.has_value() && slot.wanted->cohort == hello.cohort) {
    actions_->SendToAttach(id, control::AttachGo{slot.wanted->epoch, slot.wanted->rank});
  }
}

void Slots::OnAttachExit(AttachId id, const control::AttachExit& message) {
  const auto attach = attaches_.find(id);
  if (attach == attaches_.end() || options_.managed || attach->second.exited) return;
  attach->second.exited = true;
  const int index = attach->second.hello.slot;
  if (!ValidSlot(index)) return;
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  if (!slot.given.has_value() || slot.given->cohort != attach->second.hello.cohort) return;
  slot.running = false;
  ReportExit(index, slot.given, message.exit);
}

void Slots::OnAttachGone(AttachId id) {
  const auto attach = attaches_.find(id);
  if (attach == attaches_.end()) return;
  const control::AttachHello hello = attach->second.hello;
  const bool exited = attach->second.exited;
  attaches_.erase(attach);
  if (options_.managed || exited || !ValidSlot(hello.slot)) return;
  Slot& slot = slots_[static_cast<std::size_t>(hello.slot)];
  if (!slot.running || !slot.given.has_value() || slot.given->cohort != hello.cohort) return;
  slot.running = false;
  control::RankExit exit;
  exit.signal = SIGKILL;
  exit.last_lines = {"the attach of " + options_.program +
                     " was killed before it could report how the program ended"};
  ReportExit(hello.slot, slot.given, std::move(exit));
}

void Slots::End(std::chrono::milliseconds grace, const std::string& leaving) {
  ending_ = true;
  leaving_ = leaving;
  for (int index = 0; index < options_.slots; ++index) FlushHeldOutput(index);
  if (!leaving.empty()) actions_->SendToLauncher(control::AgentLeaving{leaving});
  for (int index = 0; index < options_.slots; ++index) {
    if (options_.managed && slots_[static_cast<std::size_t>(index)].running) {
      actions_->StopRank(index, grace);
    }
  }
  if (options_.managed) return;
  for (const auto& [id, attach] : attaches_) {
    if (!attach.exited) actions_->StopAttach(id, grace);
  }
}

bool Slots::AnyRankRunning() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.running; });
}

void Slots::StartFresh(int index) {
  if (ending_) return;
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  FlushHeldOutput(index);
  slot.given.reset();
  slot.done = slot.connected = slot.stopping = false;
  slot.store_requests.clear();
  const Result<void> started = actions_->StartRank(index);
  slot.running = started.ok();
  if (started.ok()) return;
  control::RankExit exit;
  exit.slot = index;
  exit.exit_code = control::kExitCannotStart;
  exit.last_lines = {started.error().message};
  ReportExit(index, slot.wanted, std::move(exit));
}

// Tells the slot's fresh rank its epoch, as soon as there are both.
void Slots::Give(int index) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  if (!slot.wanted.has_value() || slot.stopping || slot.given.has_value()) return;
  if (slot.running) {
    SendAttachGo(index, *slot.wanted);
    if (!slot.connected) return;
    slot.given = slot.wanted;
    actions_->SendToRank(index,
                         control::RankEpoch{slot.given->epoch, slot.given->rank, slot.members});
    FlushHeldOutput(index);
  } else if (!slot.exit_report.has_value()) {
    StartFresh(index);
  } else if (slot.exit_report->epoch != slot.wanted->epoch) {
    // It ended by itself while it loaded (bad data, say), and would do so again: this is its end in
    // the epoch.
    SendAttachGo(index, *slot.wanted);
    FlushHeldOutput(index);
    ReportExit(index, slot.wanted, slot.exit_report->exit);
  }
}

void Slots::GiveDirect(int index) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  if (slot.given.has_value()) return;
  slot.given = slot.wanted;
  slot.running = !AttachesOf(index, slot.given->cohort).empty();
  SendAttachGo(index, *slot.given);
}

void Slots::ReportExit(int index, const std::optional<Assignment>& assignment,
                       control::RankExit exit) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  exit.slot = index;
  exit.rank = assignment.has_value() ? assignment->rank : -1;
  exit.pod_uid = options_.pod_uid;
  exit.pod = options_.pod;
  exit.node = options_.node;
  slot.done = false;
  slot.exit_report = control::RankExited{
      assignment.has_value() ? assignment->epoch : control::Epoch{}, std::move(exit)};
  actions_->SendToLauncher(*slot.exit_report);
  if (!options_.managed || !assignment.has_value()) return;
  for (const AttachId attach : AttachesOf(index, assignment->cohort)) {
    actions_->SendToAttach(attach, control::AttachExit{slot.exit_report->exit});
  }
}

void Slots::FlushHeldOutput(int index) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  const std::optional<Assignment> assignment = slot.given.has_value() ? slot.given : slot.wanted;
  for (const Output& output : slot.held_output) {
    if (assignment.has_value()) {
      Deliver(index, *assignment, output.is_stderr, output.data);
    } else {
      actions_->PrintLocally(index, -1, output.is_stderr, output.data);
    }
  }
  slot.held_output.clear();
  slot.held_bytes = 0;
}

void Slots::Deliver(int index, const Assignment& assignment, bool is_stderr,
                    std::string_view data) {
  const std::vector<AttachId> attaches = AttachesOf(index, assignment.cohort);
  if (attaches.empty()) {
    actions_->PrintLocally(index, assignment.rank, is_stderr, data);
  } else {
    actions_->SendToAttach(attaches.front(), control::RankOutput{is_stderr, std::string(data)});
  }
}

std::vector<AttachId> Slots::AttachesOf(int index, std::int64_t cohort) const {
  std::vector<AttachId> found;
  for (const auto& [id, attach] : attaches_) {
    if (attach.hello.slot == index && attach.hello.cohort == cohort) found.push_back(id);
  }
  return found;
}

void Slots::SendAttachGo(int index, const Assignment& assignment) {
  for (const AttachId attach : AttachesOf(index, assignment.cohort)) {
    actions_->SendToAttach(attach, control::AttachGo{assignment.epoch, assignment.rank});
  }
}

void Slots::RefuseAttach(AttachId id, const std::string& reason) {
  control::RankExit exit;
  exit.exit_code = 1;
  exit.last_lines = {reason};
  actions_->SendToAttach(id, control::AttachExit{exit});
}

}  // namespace ringmaster::agent
