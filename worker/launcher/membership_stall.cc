// Ranks of our own trainer that hang or are slow, by where they say they stand. A rank that holds
// the others up is ended by its agent, which says first where its threads are; from its end on it
// is a loss like any other.

#include <algorithm>

#include "common/base/log.h"
#include "worker/launcher/membership.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;
using control::Member;

constexpr std::size_t kMaxReasonBytes = 300;

}  // namespace

// A world has begun, or was taken over.
void Membership::WatchWorld(Time now) {
  stall_watch_.Begin(now, WorldSize());
  straggler_watch_.Begin(members_);
  stalled_.clear();
}

void Membership::On(Time now, Worker& worker, const control::RankPositions& positions) {
  if (KeptForLater(worker, positions)) return;
  if (!Elastic() || phase_ != LauncherPhase::kRunning || positions.epoch != epoch_) return;
  for (const control::RankPosition& position : positions.ranks) {
    if (position.rank < 0 || position.rank >= WorldSize()) continue;
    const Member& member = members_[static_cast<std::size_t>(position.rank)];
    if (member.pod_uid != worker.hello.pod_uid || member.slot != position.slot) continue;
    if (!formed_here_) NoteState(member, position);
    stall_watch_.Report(now, position);
    if (position.entered) {
      straggler_watch_.Report(now, member, position.step, position.own_micros);
    }
  }
}

void Membership::On(Time /*now*/, Worker& worker, const control::RankStack& stack) {
  if (stack.slot < 0 || stack.slot >= options_.slots) return;
  control::RankStack& kept = worker.processes[stack.slot].stack;
  kept = stack;
  kept.text.resize(std::min(kept.text.size(), control::kMaxStackBytes));
  kept.reason.resize(std::min(kept.reason.size(), kMaxReasonBytes));
}

// What the agent said of the process before it ended it, into the record of its end.
void Membership::AddStack(const Worker& worker, control::RankExit& exit) const {
  const auto process = worker.processes.find(exit.slot);
  if (process == worker.processes.end() || exit.start.empty()) return;
  const control::RankStack& stack = process->second.stack;
  if (stack.start != exit.start) return;
  exit.stack = stack.text;
  exit.last_lines.push_back("it was ended: " + stack.reason);
}

// The world stands still because of some ranks: they are to end. True while their ends are awaited.
bool Membership::JudgeStall(Time now) {
  // Only a tick knows whether we were late ourselves.
  if (now != last_tick_) return !stalled_.empty();
  if (!stalled_.empty()) {
    LeaveOutTheUnkillable(now);
    return true;
  }
  const std::optional<StallWatch::Judgement> judgement = stall_watch_.Judge(now);
  if (!judgement) {
    NoteWhoCannotConnect(now);
    return false;
  }
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - judgement->still_since).count();
  for (const int rank : judgement->ranks) {
    const Member& member = members_[static_cast<std::size_t>(rank)];
    const std::string reason = "rank " + std::to_string(rank) + " stood still for " +
                               std::to_string(millis) + " ms while others waited, " +
                               stall_watch_.PlaceOf(rank);
    LogWarn("A rank holds the others up",
            {{"pod", member.pod}, {"node", member.node}, {"reason", reason}});
    stalled_[IdOf(member)] = {now, judgement->still_since};
    Send(workers_.at(member.pod_uid), control::EndStalledRank{member.slot, member.start, reason});
  }
  return true;
}

// As if they had said so themselves, which they do only when their own patience ends.
void Membership::NoteWhoCannotConnect(Time now) {
  for (const auto& [rank, peer] : stall_watch_.CannotConnect(now)) {
    const bool news = broken_
                          .try_emplace(rank, control::RankBroken{epoch_, rank, peer,
                                                                 "it does not come to connect with "
                                                                 "rank " +
                                                                     std::to_string(peer)})
                          .second;
    if (news && !first_broken_at_) first_broken_at_ = now;
  }
}

// A process in an uninterruptible wait outlives its kill: the world goes on without its Pod.
void Membership::LeaveOutTheUnkillable(Time now) {
  bool left_out = false;
  for (const Member& member : members_) {
    const auto stalled = stalled_.find(IdOf(member));
    if (stalled == stalled_.end() || now - stalled->second.asked_at < options_.stall_end_within) {
      continue;
    }
    LeaveOut(now, member, "it hung, and could not be ended", "Stalled");
    left_out = left_out || workers_.at(member.pod_uid).lost;
  }
  if (left_out) Form(now);
}

std::vector<control::Straggler> Membership::Stragglers(Time now) const {
  std::vector<control::Straggler> stragglers;
  if (!Elastic()) return stragglers;
  for (const StragglerWatch::Slow& slow : straggler_watch_.Stragglers(now)) {
    if (stragglers.size() == control::kMaxStragglers) break;
    const Member* member = MemberAt(std::get<0>(slow.id), std::get<1>(slow.id));
    if (member == nullptr || IdOf(*member) != slow.id) continue;
    stragglers.push_back(
        {.pod_uid = member->pod_uid,
         .pod = member->pod,
         .node = member->node,
         .rank = member->rank,
         .step_millis = slow.own_micros / 1000,
         .median_millis = slow.median_micros / 1000,
         .for_seconds =
             std::chrono::duration_cast<std::chrono::seconds>(now - slow.since).count()});
  }
  return stragglers;
}

JobTimes Membership::Times(Time now) const {
  JobTimes times;
  times.epoch = epoch_.number;
  if (const auto median = stall_watch_.MedianStep()) {
    times.median_step_seconds = std::chrono::duration<double>(*median).count();
  }
  if (!Elastic()) return times;
  const std::vector<control::Straggler> stragglers = Stragglers(now);
  for (const Member& member : members_) {
    RankTimes rank{.pod = member.pod, .node = member.node, .rank = member.rank};
    const auto& position = stall_watch_.positions()[static_cast<std::size_t>(member.rank)];
    if (position) {
      rank.step = position->step;
      rank.step_seconds = static_cast<double>(position->step_micros) / 1e6;
    }
    rank.own_seconds = straggler_watch_.OwnMicros(member).value_or(0) / 1e6;
    rank.straggler = std::any_of(stragglers.begin(), stragglers.end(),
                                 [&](const auto& one) { return one.rank == member.rank; });
    times.ranks.push_back(std::move(rank));
  }
  return times;
}

}  // namespace ringmaster::launcher
