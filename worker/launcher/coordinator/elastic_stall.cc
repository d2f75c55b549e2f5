// Detects ranks of an elastic job that hang or are slow, from the positions that they report. The
// agent of a rank that blocks the others reports the rank's stacks and then ends the rank. The end
// of the rank counts as a loss.

#include <algorithm>

#include "common/base/log.h"
#include "worker/launcher/coordinator/elastic_job.h"

namespace ringmaster::launcher {

using control::LauncherPhase;
using control::Member;

namespace {

constexpr std::size_t kMaxReasonBytes = 300;

}  // namespace

// Begins to watch the ranks of a world that has started or was taken over.
void ElasticJob::WatchWorld(Time now) {
  stall_watch_.Begin(now, world_.size());
  straggler_watch_.Begin(world_.members());
  stalled_.clear();
}

void ElasticJob::On(Time now, Worker& worker, const control::RankPositions& positions) {
  if (KeptForLater(worker, positions)) return;
  if (phase_ != LauncherPhase::kRunning || positions.epoch != world_.epoch()) return;
  for (const control::RankPosition& position : positions.ranks) {
    if (!world_.RunsIn(worker.hello.pod_uid, position.rank)) continue;
    const Member& member = world_.member(position.rank);
    if (member.slot != position.slot) continue;
    if (!formed_here_) NoteState(member, position);
    stall_watch_.Report(now, position);
    if (position.entered) {
      straggler_watch_.Report(now, member, position.step, position.own_micros);
    }
  }
}

void ElasticJob::On(Time /*now*/, Worker& worker, const control::RankStack& stack) {
  if (stack.slot < 0 || stack.slot >= options_.slots) return;
  control::RankStack& kept = worker.processes[stack.slot].stack;
  kept = stack;
  kept.text.resize(std::min(kept.text.size(), control::kMaxStackBytes));
  kept.reason.resize(std::min(kept.reason.size(), kMaxReasonBytes));
}

// If the agent ended a process because it hung, adds the stack and the reason to the exit.
void ElasticJob::AddStack(const Worker& worker, control::RankExit& exit) const {
  const auto process = worker.processes.find(exit.slot);
  if (process == worker.processes.end() || exit.start.empty()) return;
  const control::RankStack& stack = process->second.stack;
  if (stack.start != exit.start) return;
  exit.stack = stack.text;
  exit.last_lines.push_back("it was stopped: " + stack.reason);
}

// Tells agents to end the ranks that block the world. Returns true if there are such
// ranks.
bool ElasticJob::JudgeStall(Time now) {
  // Only OnTick() detects that this launcher was suspended, so judge only during a tick.
  if (now != last_tick_) return !stalled_.empty();
  if (!stalled_.empty()) {
    ExcludeUnkillable(now);
    return true;
  }
  const std::optional<StallWatch::Judgement> judgement = stall_watch_.Judge(now);
  WriteStall(judgement ? judgement->still_since : stall_watch_.StalledSince(now));
  if (!judgement) {
    NoteConnectFailures(now);
    return false;
  }
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - judgement->still_since).count();
  for (const int rank : judgement->ranks) {
    const Member& member = world_.member(rank);
    const std::string reason = "rank " + std::to_string(rank) + " made no progress for " +
                               std::to_string(millis) + " ms while others waited, " +
                               stall_watch_.PlaceOf(rank) +
                               (judgement->missing.empty() ? "" : ": " + judgement->missing);
    LogWarn("Found a rank that blocks the others",
            {{"pod", member.pod}, {"node", member.node}, {"reason", reason}});
    const control::EndStalledRank request{member.slot, member.start, reason};
    stalled_[IdOf(member)] = {now, judgement->still_since, request};
    Send(workers_.At(member.pod_uid), request);
  }
  return true;
}

// The agent ignores a request that it has received before.
void ElasticJob::RepeatEndsOfStalledRanks(const Worker& worker) {
  for (const auto& [id, stalled] : stalled_) {
    if (std::get<0>(id) == worker.hello.pod_uid) Send(worker, stalled.request);
  }
}

// Logs each stall of the world once, even if no rank can be blamed.
void ElasticJob::WriteStall(const std::optional<Time>& since) {
  if (!since || written_stall_ == since) return;
  written_stall_ = since;
  LogWarn("The world makes no progress",
          {{"epoch", world_.epoch().number}, {"ranks", stall_watch_.Record()}});
}

// Records the ranks that cannot connect to a peer. The ranks report this only after a timeout.
void ElasticJob::NoteConnectFailures(Time now) {
  for (const auto& [rank, peer] : stall_watch_.CannotConnect(now)) {
    change_.BreakUnlessReported(
        now, {world_.epoch(), rank, peer, "it cannot connect to rank " + std::to_string(peer)});
  }
}

// Excludes the Pods of ranks that did not end: an uninterruptible process cannot be killed. If no
// other Pod is left, ends the world, so that a new Pod resumes from the checkpoint.
void ElasticJob::ExcludeUnkillable(Time now) {
  bool excluded = false;
  for (const Member& member : world_.members()) {
    const auto stalled = stalled_.find(IdOf(member));
    if (stalled == stalled_.end()) continue;
    const Worker& worker = workers_.At(member.pod_uid);
    if (worker.Fenced()) continue;  // because of another of its ranks
    const Time asked_at = std::max(stalled->second.asked_at, worker.welcomed_at);
    if (now - asked_at < options_.stall_end_within) continue;
    const bool alone = SurvivingPods() < 2;
    Exclude(now, member, "it hung and could not be stopped", control::kCauseStalled);
    if (alone) {
      return Stop(now, "a rank of " + NameOf(member.pod_uid) + " hung and could not be stopped");
    }
    excluded = true;
  }
  if (excluded) Form(now);
}

}  // namespace ringmaster::launcher
