// Handles epochs: the launcher's requests, and their effects on running ranks.

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/control/world_difference.h"
#include "worker/agent/slots/elastic_slots.h"

namespace ringmaster::agent {

void ElasticSlots::RepeatToLauncher(std::int64_t term) {
  for (int index = 0; index < options_.slots; ++index) {
    const Slot& slot = At(index);
    if (!slot.connected || slot.stopping || ending_) continue;
    actions_->SendToLauncher(control::RankReady{index, slot.start});
  }
  if (!world_.members.empty()) {
    actions_->SendToLauncher(ReportOfWorld({}));
  }
  if (prepared_.number != 0 && prepared_.term == term) {
    actions_->SendToLauncher(control::EpochAccepted{prepared_});
  }
  for (int index = 0; index < options_.slots; ++index) {
    const Slot& slot = At(index);
    // Repeat the requests for every new launcher, because its store is empty.
    for (const control::Message& request : slot.reported.store.All()) {
      actions_->SendToLauncher(request);
    }
    if (slot.reported.broken.has_value()) actions_->SendToLauncher(*slot.reported.broken);
    if (slot.reported.boundary.has_value()) actions_->SendToLauncher(*slot.reported.boundary);
    if (slot.reported.done.has_value()) actions_->SendToLauncher(*slot.reported.done);
    if (slot.reported.written.has_value()) actions_->SendToLauncher(*slot.reported.written);
    if (slot.checkpoint.has_value()) actions_->SendToLauncher(*slot.checkpoint);
    if (slot.began.has_value()) actions_->SendToLauncher(*slot.began);
    for (const auto& [what, protection] : slot.unprotected) actions_->SendToLauncher(protection);
    if (slot.exit_report.has_value()) actions_->SendToLauncher(*slot.exit_report);
    Route(index);
  }
}

control::WorldReport ElasticSlots::ReportOfWorld(std::vector<control::Member> members) const {
  control::WorldReport report{world_.epoch, std::move(members), {}, released_ == world_.epoch};
  for (const Slot& slot : slots_) {
    // Count a process that is still loading, because it may be a member of a newer world, and a
    // released one, which may have closed its connection.
    const bool released = slot.running && slot.released;
    const bool counts = slot.connected || slot.wanted.has_value() || released;
    if (counts && !slot.stopping && !slot.killed && !ending_) report.running.push_back(slot.start);
  }
  return report;
}

void ElasticSlots::OnTellWorld(const control::TellWorld& tell) {
  if (tell.epoch != world_.epoch) return;  // a newer world was reported or sent
  actions_->SendToLauncher(ReportOfWorld(world_.members));
}

void ElasticSlots::OnPrepareEpoch(const control::PrepareEpoch& prepare) {
  if (!Accept(prepare.epoch, "PrepareEpoch")) return;
  prepared_ = prepare.epoch;
  for (int index = 0; index < options_.slots; ++index) {
    Slot& slot = At(index);
    if (slot.wanted.has_value() && slot.wanted->epoch < prepare.epoch) slot.wanted.reset();
    if (slot.connected && slot.assigned.has_value() && slot.assigned->epoch < prepare.epoch) {
      actions_->SendToRank(index, control::RankLeave{prepare.epoch});
    }
  }
  actions_->SendToLauncher(control::EpochAccepted{prepare.epoch});
}

void ElasticSlots::OnSwitchEpoch(const control::SwitchEpoch& switch_epoch) {
  if (switch_epoch.epoch < highest_epoch_) return;
  for (int index = 0; index < options_.slots; ++index) {
    const Slot& slot = At(index);
    if (slot.connected && slot.assigned.has_value() && slot.assigned->epoch == switch_epoch.epoch) {
      actions_->SendToRank(index, control::RankSwitch{switch_epoch.epoch, switch_epoch.leaving});
    }
  }
}

void ElasticSlots::OnChangeEpoch(const control::ChangeEpoch& change) {
  if (ending_ || change.epoch < highest_epoch_) return;
  auto members = change.base == world_.epoch ? control::MembersAfter(world_.members, change)
                                             : std::optional<std::vector<control::Member>>();
  if (!members) {
    return actions_->DialLauncherAgain("epoch " + ToText(change.epoch) + " builds on epoch " +
                                       ToText(change.base) + ", which this agent does not have");
  }
  OnStartEpoch({change.epoch, change.cohort, *std::move(members), change.full_size});
}

void ElasticSlots::OnStartEpoch(const control::StartEpoch& start) {
  if (ending_ || !Accept(start.epoch, "StartEpoch")) return;
  std::vector<const control::Member*> ours;
  for (int index = 0; index < options_.slots; ++index) {
    ours.push_back(FindMember(start.members, index));
  }
  if (std::any_of(ours.begin(), ours.end(), [](const auto* member) { return member != nullptr; })) {
    world_ = start;
  }
  for (int index = 0; index < options_.slots; ++index) {
    Slot& slot = At(index);
    if (slot.wanted.has_value() && slot.wanted->epoch < start.epoch) slot.wanted.reset();
    const control::Member* const member = ours[static_cast<std::size_t>(index)];
    if (member != nullptr) Join(index, *member);
    if (slot.exit_report.has_value() && slot.exit_report->epoch < start.epoch && !slot.given_up) {
      slot.exit_report.reset();
    }
  }
}

void ElasticSlots::Join(int index, const control::Member& member) {
  Slot& slot = At(index);
  const auto there = [&](const std::optional<Place>& place) {
    return place.has_value() && place->epoch == world_.epoch;
  };
  if (there(slot.assigned) || there(slot.wanted)) return;  // received again
  slot.gate_open = true;
  // A member of the first world has no `start`: it is the slot's current or next process.
  const bool itself = member.start.empty() || member.start == slot.start;
  const bool to_come = member.start.empty() && !slot.running && !slot.given_up;
  if ((slot.running && itself) || to_come) {
    slot.wanted = Place{world_.epoch, world_.cohort, member.rank};
    SendAttachGo(index, *slot.wanted);
    Route(index);
    return Assign(index);
  }
  JoinTooLate(index, member);
}

// The launcher made a process a member of this epoch without knowing that the process had already
// ended. Reports the exit of the process in this epoch.
void ElasticSlots::JoinTooLate(int index, const control::Member& member) {
  Slot& slot = At(index);
  const bool known = slot.exit_report.has_value() &&
                     (member.start.empty() || member.start == slot.exit_report->exit.start);
  if (!known) {
    LogWarn("Received an epoch with a rank process that this agent did not start",
            {{"epoch", ToText(world_.epoch)}, {"slot", index}, {"start", member.start}});
    return;
  }
  if (slot.exit_report->epoch == world_.epoch) return;
  slot.reported.done.reset();  // RankDone was for an older epoch than this exit
  slot.exit_report->epoch = world_.epoch;
  slot.exit_report->exit.rank = member.rank;
  actions_->SendToLauncher(*slot.exit_report);
  if (!slot.given_up) return;
  SendAttachGo(index, {world_.epoch, world_.cohort, member.rank});
  EndAttaches(index, slot.exit_report->exit);
}

// If the slot's rank is connected, sends the rank the epoch that it has to join.
void ElasticSlots::Assign(int index) {
  Slot& slot = At(index);
  if (!slot.wanted.has_value() || !slot.connected || slot.stopping) return;
  slot.assigned = std::exchange(slot.wanted, std::nullopt);
  slot.reported = {};
  slot.released = false;
  actions_->SendToRank(index, control::RankEpoch{slot.assigned->epoch, slot.assigned->rank,
                                                 world_.members, world_.full_size});
  Route(index);
}

void ElasticSlots::SendAttachGo(int index, const Place& place) {
  for (const auto& [id, attach] : attaches_) {
    if (attach.hello.slot != index || attach.hello.cohort != place.cohort) continue;
    actions_->SendToAttach(id, control::AttachGo{place.epoch, place.rank});
  }
}

void ElasticSlots::OnStopEpoch(const control::StopEpoch& stop) {
  for (int index = 0; index < options_.slots; ++index) {
    Slot& slot = At(index);
    if (slot.wanted.has_value() && slot.wanted->epoch <= stop.epoch) slot.wanted.reset();
    if (slot.running) {
      if (!slot.assigned.has_value() || slot.assigned->epoch > stop.epoch) continue;
      slot.stopping = true;
      actions_->StopRank(index, std::chrono::milliseconds(stop.grace_millis));
    } else if (slot.given_up && !slot.released && leaving_.empty() &&
               slot.exit_report->epoch <= stop.epoch) {
      slot.restart.Forget();
      StartFresh(index);
    }
  }
}

void ElasticSlots::OnRelease(const control::Release& release) {
  if (release.epoch < highest_epoch_) return;
  released_ = release.epoch;
  for (int index = 0; index < options_.slots; ++index) {
    Slot& slot = At(index);
    if (!slot.running || !slot.assigned.has_value() || slot.assigned->epoch != release.epoch)
      continue;
    slot.released = true;
    actions_->SendToRank(index, release);
  }
}

// Ends a rank that blocks the others, unless its process is already ending.
void ElasticSlots::OnEndStalledRank(const control::EndStalledRank& end) {
  if (!ValidSlot(end.slot) || ending_) return;
  const Slot& slot = At(end.slot);
  if (!slot.running || slot.stopping || slot.released || slot.start != end.start) return;
  actions_->EndHangingRank(end.slot, end.start, end.reason);
}

std::vector<RankStanding> ElasticSlots::InWorld() const {
  std::vector<RankStanding> standing;
  for (int index = 0; index < options_.slots; ++index) {
    const Slot& slot = slots_[static_cast<std::size_t>(index)];
    if (!slot.running || !slot.assigned.has_value() || slot.assigned->epoch != world_.epoch)
      continue;
    standing.push_back({index, slot.assigned->rank, slot.assigned->epoch});
  }
  return standing;
}

std::optional<int> ElasticSlots::SlotOf(const control::Epoch& epoch, int rank) const {
  for (int index = 0; index < options_.slots; ++index) {
    const std::optional<Place>& assigned = slots_[static_cast<std::size_t>(index)].assigned;
    if (assigned.has_value() && assigned->epoch == epoch && assigned->rank == rank) return index;
  }
  return std::nullopt;
}

void ElasticSlots::OnCheckpointGrant(const control::CheckpointGrant& grant) {
  const std::optional<int> index = SlotOf(grant.epoch, grant.rank);
  if (!index) return;
  At(*index).reported.written.reset();
  actions_->SendToRank(*index, grant);
}

void ElasticSlots::OnTakeCheckpoint(const control::TakeCheckpoint& take) {
  const std::optional<int> index = SlotOf(take.epoch, 0);
  if (index && At(*index).connected) actions_->SendToRank(*index, take);
}

void ElasticSlots::OnStoreValues(const control::StoreValues& values) {
  const std::optional<int> index = SlotOf(values.epoch, values.rank);
  if (!index) return;
  At(*index).reported.store.Answered(values.id);
  actions_->SendToRank(*index, values);
}

}  // namespace ringmaster::agent
