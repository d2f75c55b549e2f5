// Changes the world of an elastic job in place when members are lost, join or leave. Ranks that
// stay keep their processes, models and state. See common/control/protocol.md.

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/control/exit_codes.h"
#include "common/control/reasons.h"
#include "common/control/world_difference.h"
#include "worker/launcher/coordinator/elastic_job.h"

namespace ringmaster::launcher {

using control::LauncherPhase;
using control::Member;
using control::RankExit;

bool ElasticJob::WorldCanChange() const {
  return phase_ == LauncherPhase::kRunning || phase_ == LauncherPhase::kForming ||
         phase_ == LauncherPhase::kPaused;
}

// Takes every action that has become possible or necessary. The decision depends only on the state
// of the job, not on the event that led here.
void ElasticJob::AdvanceWorld(Time now) {
  JudgeFailures(now);
  if (failures_.MustFail() || phase_ == LauncherPhase::kFinished) return;
  if (ShouldAdopt()) return BeginAdopting(now);
  if (order_->replicas == 0) return Stop(now, "the job is scaled to zero workers");
  for (const std::string& pod_uid : world_.pods()) {
    Worker& worker = workers_.At(pod_uid);
    if (worker.connection || !worker.Trusted() || !Leaving(pod_uid)) continue;
    LoseWorker(now, worker, control::kCauseAgentLeft, "it was leaving and its connection was lost");
  }
  if (phase_ == LauncherPhase::kForming) return AdvanceForming(now);
  if (phase_ == LauncherPhase::kPaused) {
    const std::vector<Member> next = Next(now, change_.orderly);
    if (PauseReason(next) != change_.pause_reason || NoMembersRemain(next)) Form(now);
    return;
  }
  if (AllEndedWell()) {
    Release(now);
    return FinishIfReleased(now);
  }
  const bool loss =
      std::any_of(world_.members().begin(), world_.members().end(),
                  [&](const Member& member) { return Gone(member) && !EndedWell(member); });
  if (loss || AllAtBoundary(now)) return Form(now);
  if (JudgeStall(now)) return;
  JudgeBroken(now);
  if (phase_ == LauncherPhase::kRunning && !change_.switching && ChangeWanted(now))
    BeginSwitch(now);
}

void ElasticJob::AdvanceForming(Time now) {
  const bool broken = std::any_of(change_.proposal->members().begin(),
                                  change_.proposal->members().end(), [&](const Member& member) {
                                    const Worker& worker = workers_.At(member.pod_uid);
                                    const Member* old = world_.At(member.pod_uid, member.slot);
                                    if (old != nullptr && old->start == member.start)
                                      return Gone(member);
                                    const auto process = worker.processes.find(member.slot);
                                    return !worker.connection || worker.Fenced() ||
                                           process == worker.processes.end() ||
                                           process->second.loaded != member.start;
                                  });
  if (broken || !PauseReason(change_.proposal->members()).empty()) return Form(now);
  const bool agreed = change_.proposal->AllAccepted() && QuorumOf([&](const std::string& pod_uid) {
                        return change_.proposal->Accepted(pod_uid);
                      });
  if (agreed) return StartProposal(now);
  DropUnresponsive(now);
}

void ElasticJob::BeginSwitch(Time now) {
  change_.switching = true;
  NoteLeavers(now);
  LogInfo("Asked the ranks to stop after a step", {{"epoch", world_.epoch().number}});
  for (const std::string& pod_uid : world_.pods()) {
    Send(workers_.At(pod_uid), control::SwitchEpoch{world_.epoch(), Leaving(pod_uid)});
  }
}

// Records a leaving worker as a loss, unless the job is being scaled down.
void ElasticJob::NoteLeavers(Time now) {
  if (recovery_.IsOpen()) return;
  if (order_->replicas < static_cast<int>(world_.pods().size())) return;
  for (const std::string& pod_uid : world_.pods()) {
    const Worker& worker = workers_.At(pod_uid);
    const bool leaves = Leaving(pod_uid) && worker.Trusted();
    if (leaves) return NoteLoss(now, worker, control::kCauseLeft, now);
  }
}

bool ElasticJob::AllAtBoundary(Time now) const {
  return change_.AllAtBoundary(now, done_, world_.size(),
                               options_.lost_after + options_.broken_settle);
}

// Called when ranks report that they cannot continue although no worker is lost. Retries with the
// same members, and then excludes the members that others cannot reach. If every rank has reported,
// the first attempt since a committed step does not wait for the detection of lost workers.
void ElasticJob::JudgeBroken(Time now) {
  if (!change_.first_broken_at) return;
  const bool settled =
      now - *change_.first_broken_at >= options_.lost_after + options_.broken_settle;
  const bool at_once = !settled && !reformed_at_once_ && change_.AllBroken(world_.size());
  if (!settled && !at_once) return;
  if (at_once || same_world_attempts_ < options_.same_world_attempts) {
    if (at_once) reformed_at_once_ = true;
    if (settled) ++same_world_attempts_;
    LogWarn("Ranks lost connectivity but no worker is lost", {{"epoch", world_.epoch().number}});
    return Form(now);
  }
  const bool no_culprit = SurvivingPods() < 2 || !store_.refusal().empty();
  if (no_culprit) return CountBrokenWorld(now);
  const Blame blame = FindCulprits(world_.size(), change_.BrokenPeers(), done_);
  const std::string why =
      blame.stalled
          ? "it did not respond while the other ranks were blocked"
          : "the world continues without it because ranks could not reach each other; rank " +
                std::to_string(change_.broken.begin()->first) +
                " said: " + change_.broken.begin()->second.reason;
  for (const int rank : blame.ranks) {
    if (SurvivingPods() < 2) break;
    Exclude(now, world_.member(rank), why,
            blame.stalled ? control::kCauseStalled : control::kCauseCannotReachPeers);
  }
  Form(now);
}

// Call if the ranks of this world cannot continue together and no worker is to blame or can be left
// out. No rank ends, so this counts as a crash: otherwise the same ranks would form worlds forever.
void ElasticJob::CountBrokenWorld(Time now) {
  const auto& [rank, word] = *change_.broken.begin();
  const std::string why = store_.refusal().empty() ? word.reason : store_.refusal();
  RankExit failure = FailureOf(world_.member(rank), "it could not continue: " + why);
  failures_.Crash(now, started_at_, failure, RankText(failure) + " could not continue: " + why);
  if (failures_.CrashLimitReached()) {
    return Fail(now, {control::kReasonCrashLoop, failures_.CrashText(), control::kExitFailed,
                      std::move(failure)});
  }
  failures_.Record(std::move(failure));
  Form(now);
}

// Returns the failure of a member whose process has not ended.
RankExit ElasticJob::FailureOf(const Member& member, const std::string& why) const {
  RankExit failure;
  failure.rank = member.rank;
  failure.pod_uid = member.pod_uid;
  failure.pod = member.pod;
  failure.node = member.node;
  failure.slot = member.slot;
  failure.start = member.start;
  failure.last_lines = {why};
  return failure;
}

void ElasticJob::Exclude(Time now, const Member& member, const std::string& why,
                         const char* cause) {
  Worker& worker = workers_.At(member.pod_uid);
  if (worker.Fenced()) return;
  RankExit failure = FailureOf(member, why);
  AddStack(worker, failure);
  failures_.Record(std::move(failure));
  NoteLoss(now, worker, cause, now);
  Fence(worker);
}

// Returns whether there is a quorum. `takes_part` returns whether a Pod of the newest world counts.
template <typename TakesPart>
bool ElasticJob::QuorumOf(TakesPart takes_part) const {
  Quorum quorum;
  quorum.pods = static_cast<int>(world_.pods().size());
  quorum.formed_here = formed_here_;
  quorum.all_accounted = true;
  for (const std::string& pod_uid : world_.pods()) {
    const control::Epoch& promised = workers_.At(pod_uid).hello.highest_epoch;
    const bool to_another = promised > world_.epoch() && promised.term != options_.term;
    if (KnownDead(pod_uid)) {
      ++quorum.known_dead;
    } else if (!takes_part(pod_uid)) {
      quorum.all_accounted = false;
    } else if (!to_another) {
      ++quorum.accepted;
    }
  }
  if (formed_here_) return HasQuorum(quorum);
  // A previous launcher may have admitted Pods that are not known to this launcher.
  for (const control::DesiredWorker& wanted : order_->workers) {
    if (wanted.node.empty() || world_.pods().contains(wanted.pod_uid)) continue;
    const Worker* worker = workers_.Find(wanted.pod_uid);
    const bool heard = worker != nullptr && (worker->connection || worker->Dead());
    if (!heard) quorum.all_accounted = false;
  }
  return HasQuorum(quorum);
}

// Returns whether a rank of `next` has the training state or all ranks that had it have ended.
bool ElasticJob::StateReachable(const std::vector<Member>& next) const {
  const bool carried = std::any_of(next.begin(), next.end(), [&](const Member& member) {
    return stateful_.contains(KeyOf(member));
  });
  return carried || std::all_of(stateful_.begin(), stateful_.end(), [&](const MemberId& id) {
           return ended_.contains(id) || workers_.At(std::get<0>(id)).Dead();
         });
}

// Returns why the next world cannot start; empty if it can start.
std::string ElasticJob::PauseReason(const std::vector<Member>& next) const {
  const bool majority =
      QuorumOf([&](const std::string& pod_uid) { return workers_.At(pod_uid).Trusted(); });
  if (next.empty() || !majority || !StateReachable(next)) return control::kPauseNoQuorum;
  const int pods = static_cast<int>(PodsOf(next).size());
  return pods < std::max(1, order_->min_replicas) ? control::kPauseBelowMinReplicas : "";
}

// Returns whether `next` is empty and all members of this world are known to be dead.
bool ElasticJob::NoMembersRemain(const std::vector<Member>& next) const {
  return next.empty() &&
         std::all_of(world_.pods().begin(), world_.pods().end(),
                     [&](const std::string& pod_uid) { return KnownDead(pod_uid); });
}

// Leaving workers are dropped only after every rank has stopped at the same step. If a loss forces
// the change, they stay: other ranks may hang, and a leaving worker may have the only valid state.
void ElasticJob::Form(Time now) {
  const bool orderly = change_.orderly || change_.AllReportedBoundary(done_, world_.size());
  change_ = {};
  change_.orderly = orderly;
  const std::vector<Member> next = Next(now, orderly);
  if (NoMembersRemain(next)) return Stop(now, "all members were lost");
  change_.pause_reason = PauseReason(next);
  phase_ = change_.pause_reason.empty() ? LauncherPhase::kForming : LauncherPhase::kPaused;
  if (!change_.pause_reason.empty())
    LogWarn("Paused the training", {{"reason", change_.pause_reason}});
  // Without a quorum, prepare nothing: a worker that accepts this epoch rejects lower epochs.
  if (change_.pause_reason != control::kPauseNoQuorum) Prepare(now, next);
}

// Sends PrepareEpoch to every worker of the next world, and to unfenced workers of the last world.
void ElasticJob::Prepare(Time now, const std::vector<Member>& next) {
  const control::Epoch epoch{options_.term, ++highest_number_};
  change_.proposal.emplace(epoch, next);
  change_.prepared_at = now;
  LogInfo("Prepared an epoch", {{"epoch", epoch.number}, {"ranks", next.size()}});
  std::set<std::string> asked = change_.proposal->pods();
  for (const std::string& pod_uid : world_.pods()) {
    if (!workers_.At(pod_uid).Fenced()) asked.insert(pod_uid);
  }
  for (const std::string& pod_uid : asked) workers_.At(pod_uid).prepared = epoch;
  SendToPods(asked, control::PrepareEpoch{epoch});
}

// Drops workers that are connected but have not accepted the next epoch within `lost_after`.
void ElasticJob::DropUnresponsive(Time now) {
  std::set<std::string> asked = change_.proposal->pods();
  asked.insert(world_.pods().begin(), world_.pods().end());
  bool dropped = false;
  for (const std::string& pod_uid : asked) {
    Worker& worker = workers_.At(pod_uid);
    if (!worker.connection || change_.proposal->Accepted(pod_uid)) continue;
    if (now - std::max(change_.prepared_at, worker.welcomed_at) <= options_.lost_after) continue;
    dropped = true;
    if (world_.Contains(pod_uid))
      LoseWorker(now, worker, control::kCauseNoAnswer, "it did not accept the next epoch");
    for (int slot = 0; slot < options_.slots; ++slot) cooldown_.Ended(now, pod_uid, slot);
    actions_.push_back(Drop{*worker.connection, "it did not accept the next epoch"});
    workers_.Disconnect(now, worker);
  }
  if (dropped) Form(now);
}

void ElasticJob::StartProposal(Time now) {
  const Proposal next = *std::exchange(change_.proposal, {});
  NoteLeavers(now);
  for (const std::string& pod_uid : world_.pods()) {
    Worker& worker = workers_.At(pod_uid);
    if (next.Contains(pod_uid) || worker.Fenced()) continue;
    if (!worker.connection) {
      Fence(worker);
      continue;
    }
    if (!Leaving(pod_uid)) continue;
    for (const int rank : world_.RanksOf(pod_uid)) {
      const Member& member = world_.member(rank);
      if (!Gone(member)) worker.stopping.insert(IdOf(member));
    }
  }
  const std::set<std::string> before = world_.pods();
  const auto difference = control::DifferenceFrom(world_.epoch(), world_.members(), next.epoch(),
                                                  startup_.cohort(), next.members());
  known_epoch_ = next.epoch();
  ReplaceWorld(CurrentWorld(known_epoch_, next.members(), FullSize()));
  formed_here_ = true;
  ++epochs_run_;
  started_at_ = now;
  seniority_.clear();
  for (const Member& member : world_.members()) {
    seniority_.try_emplace(member.pod_uid, seniority_.size());
  }
  for (const std::string& pod_uid : world_.pods()) workers_.At(pod_uid).stopping.clear();
  const auto has_left = [&](const MemberId& id) {
    const Member* member = world_.At(std::get<0>(id), std::get<1>(id));
    return member == nullptr || member->start != std::get<2>(id);
  };
  std::erase_if(stateful_, has_left);
  std::erase_if(ended_, has_left);
  exits_.clear();
  done_.clear();
  store_.Reset(world_.epoch(), world_.size());
  change_ = {};
  phase_ = LauncherPhase::kRunning;
  WatchWorld(now);
  LogInfo("Started an epoch", {{"epoch", world_.epoch().number}, {"ranks", world_.size()}});
  SendWorld(difference);
  for (const std::string& pod_uid : before) {
    const Worker& worker = workers_.At(pod_uid);
    if (worker.stopping.empty()) continue;
    Send(worker, StopWorld());
  }
}

void ElasticJob::ReplaceWorld(CurrentWorld world) {
  world_ = std::move(world);
  all_stateful_ = false;
}

}  // namespace ringmaster::launcher
