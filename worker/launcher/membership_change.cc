// One world of our own trainer after another, in place: members are lost, join and leave, and the
// ranks that stay keep process, model and state. common/control/README.md, "How a world changes".

#include <algorithm>

#include "common/base/log.h"
#include "common/control/world_difference.h"
#include "worker/launcher/membership.h"

namespace ringmaster::launcher {

using control::LauncherPhase;
using control::Member;

namespace {

constexpr char kCauseLeft[] = "Left";

}  // namespace

bool Membership::Elastic() const {
  return options_.managed &&
         (phase_ == LauncherPhase::kRunning || phase_ == LauncherPhase::kForming ||
          phase_ == LauncherPhase::kPaused);
}

// Whatever has become possible or necessary; decided from the state alone, so that it does not
// matter which event led here.
void Membership::AdvanceWorld(Time now) {
  JudgeFailures(now);
  if (MustFail() || phase_ == LauncherPhase::kFinished) return;
  if (ShouldAdopt()) return BeginAdopting(now);
  if (order_->replicas == 0) return Stop(now, "no workers are wanted");
  for (const std::string& pod_uid : member_pods_) {
    Worker& worker = workers_.at(pod_uid);
    if (worker.connection || worker.silent || worker.lost || !Leaving(pod_uid)) continue;
    LoseWorker(now, worker, "AgentLeft", "it was to leave and its connection is gone");
  }
  if (phase_ == LauncherPhase::kForming) return AdvanceForming(now);
  if (phase_ == LauncherPhase::kPaused) {
    const std::vector<Member> next = Next(now);
    if (PauseReason(next) != pause_reason_ || NobodyIsLeft(next)) Form(now);
    return;
  }
  if (AllEndedWell()) {
    released_at_ = now;
    return FinishIfReleased(now);
  }
  const bool loss = std::any_of(members_.begin(), members_.end(), [&](const Member& member) {
    return Gone(member) && !EndedWell(member);
  });
  if (loss || AllAtBoundary(now)) return Form(now);
  if (JudgeStall(now)) return;
  JudgeBroken(now);
  if (phase_ == LauncherPhase::kRunning && !switching_ && ChangeWanted(now)) BeginSwitch(now);
}

void Membership::AdvanceForming(Time now) {
  const bool broken = std::any_of(
      proposal_->members().begin(), proposal_->members().end(), [&](const Member& member) {
        const Worker& worker = workers_.at(member.pod_uid);
        const Member* old = MemberAt(member.pod_uid, member.slot);
        if (old != nullptr && old->start == member.start) return Gone(member);
        const auto process = worker.processes.find(member.slot);
        return !worker.connection || worker.lost || process == worker.processes.end() ||
               process->second.loaded != member.start;
      });
  if (broken || !PauseReason(proposal_->members()).empty()) return Form(now);
  const bool agreed = proposal_->AllAccepted() && QuorumOf([&](const std::string& pod_uid) {
                        return proposal_->Accepted(pod_uid);
                      });
  if (agreed) return StartProposal(now);
  DropTheUnanswering(now);
}

// A member is gone by evidence, or because its Pod has been given up.
bool Membership::Gone(const Member& member) const {
  const Worker& worker = workers_.at(member.pod_uid);
  return worker.lost || worker.dead || worker.silent || ended_.contains(KeyOf(member));
}

// By evidence: nobody of this Pod's members can take part in any world.
bool Membership::KnownDead(const std::string& pod_uid) const {
  if (workers_.at(pod_uid).dead) return true;
  const std::vector<int>& ranks = RanksOf(pod_uid);
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return ended_.contains(KeyOf(members_[static_cast<std::size_t>(rank)]));
  });
}

bool Membership::Leaving(const std::string& pod_uid) const {
  return workers_.at(pod_uid).leaving || !InOrder(pod_uid);
}

std::size_t Membership::SurvivingPods() const {
  return static_cast<std::size_t>(
      std::count_if(ranks_of_.begin(), ranks_of_.end(), [&](const auto& pod) {
        return std::any_of(pod.second.begin(), pod.second.end(), [&](int rank) {
          return !Gone(members_[static_cast<std::size_t>(rank)]);
        });
      }));
}

std::vector<Member> Membership::Survivors() const {
  std::vector<Member> survivors;
  for (const Member& member : members_) {
    if (!Gone(member)) survivors.push_back(member);
  }
  return survivors;
}

// Loaded processes in slots that have no living member, by worker and slot. A worker brings all of
// its slots at once.
std::vector<Member> Membership::Joiners(Time now, const std::vector<Member>& survivors) const {
  if (!SomebodyMayJoin()) return {};
  std::set<Slot> taken;
  for (const Member& member : survivors) taken.insert({member.pod_uid, member.slot});
  std::vector<control::DesiredWorker> wanted = order_->workers;
  std::sort(wanted.begin(), wanted.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  std::vector<Member> joiners;
  std::vector<std::string> builds = BuildsOf(survivors);
  for (const control::DesiredWorker& one : wanted) {
    const auto found = workers_.find(one.pod_uid);
    if (found == workers_.end() || !IsReady(found->second)) continue;
    const Worker& worker = found->second;
    std::vector<Member> of_this_worker;
    bool complete = true;
    for (int slot = 0; slot < options_.slots; ++slot) {
      if (taken.contains({one.pod_uid, slot})) continue;
      const auto process = worker.processes.find(slot);
      complete = process != worker.processes.end() && !process->second.loaded.empty() &&
                 !ended_.contains({one.pod_uid, slot, process->second.loaded}) &&
                 cooldown_.Until(now, one.pod_uid, slot) <= now;
      if (!complete) break;
      of_this_worker.push_back({one.pod_uid, worker.hello.pod, worker.hello.node,
                                worker.ready->address, slot, process->second.loaded, -1});
    }
    if (!complete || of_this_worker.empty()) continue;
    if (!UnfitText(one.pod_uid, builds).empty()) continue;
    AddBuild(one.pod_uid, builds);
    for (Member& member : of_this_worker) {
      taken.insert({member.pod_uid, member.slot});
      joiners.push_back(std::move(member));
    }
  }
  return joiners;
}

// Whether Joiners() may find any: a look that costs nothing while the world is as it is wanted.
bool Membership::SomebodyMayJoin() const {
  return std::any_of(connections_.begin(), connections_.end(), [&](const auto& entry) {
    const Worker& worker = workers_.at(entry.second);
    return std::any_of(worker.processes.begin(), worker.processes.end(), [&](const auto& process) {
      if (process.second.loaded.empty()) return false;
      const Member* member = MemberAt(entry.second, process.first);
      return member == nullptr || member->start != process.second.loaded || Gone(*member);
    });
  });
}

std::vector<std::string> Membership::BuildsOf(const std::vector<Member>& members) const {
  std::vector<std::string> builds;
  const std::string* last = nullptr;
  for (const Member& member : members) {
    if (last != nullptr && *last == member.pod_uid) continue;
    last = &member.pod_uid;
    AddBuild(member.pod_uid, builds);
  }
  return builds;
}

void Membership::AddBuild(const std::string& pod_uid, std::vector<std::string>& builds) const {
  if (!workers_.at(pod_uid).ready) return;
  const bool known = std::any_of(builds.begin(), builds.end(), [&](const std::string& other) {
    return SameBuild(pod_uid, other);
  });
  if (!known) builds.push_back(pod_uid);
}

// Why this worker cannot be in one world with members of these builds; empty when it can.
std::string Membership::UnfitText(const std::string& pod_uid,
                                  const std::vector<std::string>& builds) const {
  std::vector<std::string> pods = {pod_uid};
  pods.insert(pods.end(), builds.begin(), builds.end());
  return MixedText(pods);
}

std::vector<Member> Membership::Next(Time now) const {
  std::vector<Member> survivors = Survivors();
  std::vector<Member> joiners = Joiners(now, survivors);
  NextWorldInput input{std::move(survivors), {}, stateful_, std::move(joiners)};
  for (const std::string& pod_uid : member_pods_) {
    if (Leaving(pod_uid)) input.leavers.insert(pod_uid);
  }
  return NextWorld(std::move(input));
}

// Leavers can go, or joiners have come: all that are wanted, or some that waited long enough. Not
// where the world with them could not start, as when the minimum has risen with the replicas.
bool Membership::ChangeWanted(Time now) const {
  if (!done_.empty()) return false;  // it is nearly over
  const bool leaves = std::any_of(member_pods_.begin(), member_pods_.end(),
                                  [&](const std::string& pod_uid) { return Leaving(pod_uid); });
  if (!leaves && !SomebodyMayJoin()) return false;
  const std::vector<Member> next = Next(now);
  std::set<MemberId> present;
  for (const Member& member : members_) present.insert(IdOf(member));
  Time oldest = now;
  std::size_t stay = 0;
  for (const Member& member : next) {
    if (present.contains(IdOf(member))) {
      ++stay;
      continue;
    }
    const Worker& worker = workers_.at(member.pod_uid);
    oldest =
        std::min(oldest, std::max(worker.ready_since, worker.processes.at(member.slot).loaded_at));
  }
  if (stay < members_.size()) return true;
  if (stay == next.size() || !PauseReason(next).empty()) return false;
  const std::set<std::string> pods = PodsOf(next);
  const bool complete =
      static_cast<int>(pods.size()) >= order_->replicas &&
      next.size() == pods.size() * static_cast<std::size_t>(options_.slots) &&
      std::all_of(order_->workers.begin(), order_->workers.end(),
                  [&](const auto& wanted) { return pods.contains(wanted.pod_uid); });
  return complete || now - oldest >= options_.join_window;
}

void Membership::BeginSwitch(Time now) {
  switching_ = true;
  NoteLeavers(now);
  LogInfo("Asked the ranks to stop after a step", {{"epoch", epoch_.number}});
  for (const std::string& pod_uid : member_pods_) {
    Send(workers_.at(pod_uid), control::SwitchEpoch{epoch_, Leaving(pod_uid)});
  }
}

// Who goes in order, without being one too many, is missed all the same until another one is there.
void Membership::NoteLeavers(Time now) {
  if (recovery_.IsOpen() || released_at_) return;
  if (order_->replicas < static_cast<int>(member_pods_.size())) return;
  for (const std::string& pod_uid : member_pods_) {
    const Worker& worker = workers_.at(pod_uid);
    const bool leaves = Leaving(pod_uid) && !worker.silent && !worker.dead && !worker.lost;
    if (leaves) return NoteLoss(now, worker, kCauseLeft, now);
  }
}

// Each rank has said that it stopped after the step, or is past its last one.
bool Membership::EveryoneAtBoundary() const {
  if (at_boundary_.size() + done_.size() < members_.size()) return false;
  std::set<int> arrived = at_boundary_;
  arrived.insert(done_.begin(), done_.end());
  return arrived.size() == members_.size();
}

// All ranks have stopped after the same step. One of them proves that all will: so a report that
// was lost with a connection does not hold the world up.
bool Membership::AllAtBoundary(Time now) const {
  if (at_boundary_.empty()) return false;
  return EveryoneAtBoundary() ||
         now - *first_at_boundary_ > options_.lost_after + options_.broken_settle;
}

// Ranks say that they cannot go on, and nobody has been lost: first the same members again, then
// without those whom the others cannot reach.
void Membership::JudgeBroken(Time now) {
  if (!first_broken_at_ || now - *first_broken_at_ < options_.lost_after + options_.broken_settle) {
    return;
  }
  if (same_world_attempts_ < options_.same_world_attempts) {
    ++same_world_attempts_;
    LogWarn("Ranks lost each other and nobody is lost", {{"epoch", epoch_.number}});
    return Form(now);
  }
  std::map<int, int> peers;
  for (const auto& [rank, said] : broken_) peers[rank] = said.peer;
  const Blame blame = WhoHoldsUp(WorldSize(), peers, done_);
  const std::string why =
      blame.stalled
          ? "it said nothing while the other ranks could not go on"
          : "the world goes on without it, as ranks could not reach each other; rank " +
                std::to_string(broken_.begin()->first) + " said: " + broken_.begin()->second.reason;
  for (const int rank : blame.ranks) {
    LeaveOut(now, members_[static_cast<std::size_t>(rank)], why,
             blame.stalled ? "Stalled" : "CannotReachPeers");
  }
  Form(now);
}

void Membership::LeaveOut(Time now, const Member& member, const std::string& why,
                          const char* cause) {
  Worker& worker = workers_.at(member.pod_uid);
  if (worker.lost || SurvivingPods() < 2) return;
  control::RankExit failure;
  failure.rank = member.rank;
  failure.pod_uid = member.pod_uid;
  failure.pod = member.pod;
  failure.node = member.node;
  failure.slot = member.slot;
  failure.start = member.start;
  failure.last_lines = {why};
  AddStack(worker, failure);
  KeepFailure(std::move(failure));
  NoteLoss(now, worker, cause, now);
  Fence(worker);
}

// `with_us` says of a Pod of the newest world whether it takes part in the next one's forming.
template <typename WithUs>
bool Membership::QuorumOf(WithUs with_us) const {
  Quorum quorum;
  quorum.pods = static_cast<int>(member_pods_.size());
  quorum.formed_here = formed_here_;
  quorum.all_accounted = true;
  for (const std::string& pod_uid : member_pods_) {
    const control::Epoch& promised = workers_.at(pod_uid).hello.highest_epoch;
    const bool to_another = promised > epoch_ && promised.term != options_.term;
    if (KnownDead(pod_uid)) {
      ++quorum.known_dead;
    } else if (!with_us(pod_uid)) {
      quorum.all_accounted = false;
    } else if (!to_another) {
      ++quorum.accepted;
    }
  }
  if (formed_here_) return HasQuorum(quorum);
  // A launcher before us may have taken in Pods that we have not heard of.
  for (const control::DesiredWorker& wanted : order_->workers) {
    if (wanted.node.empty() || member_pods_.contains(wanted.pod_uid)) continue;
    const auto worker = workers_.find(wanted.pod_uid);
    const bool heard =
        worker != workers_.end() && (worker->second.connection || worker->second.dead);
    if (!heard) quorum.all_accounted = false;
  }
  return HasQuorum(quorum);
}

// Somebody in the next world has the training's state, or nobody who may be alive has.
bool Membership::StateReachable(const std::vector<Member>& next) const {
  const bool carried = std::any_of(next.begin(), next.end(), [&](const Member& member) {
    return stateful_.contains(KeyOf(member));
  });
  return carried || std::all_of(stateful_.begin(), stateful_.end(), [&](const MemberId& id) {
           return ended_.contains(id) || workers_.at(std::get<0>(id)).dead;
         });
}

// Why the next world cannot start; empty when it can.
std::string Membership::PauseReason(const std::vector<Member>& next) const {
  const bool majority = QuorumOf([&](const std::string& pod_uid) {
    const Worker& worker = workers_.at(pod_uid);
    return !worker.lost && !worker.silent && !worker.dead;
  });
  if (next.empty() || !majority || !StateReachable(next)) return control::kPauseNoQuorum;
  const int pods = static_cast<int>(PodsOf(next).size());
  return pods < std::max(1, order_->min_replicas) ? control::kPauseBelowMinReplicas : "";
}

// No world can follow, and no member can come back.
bool Membership::NobodyIsLeft(const std::vector<Member>& next) const {
  return next.empty() &&
         std::all_of(member_pods_.begin(), member_pods_.end(),
                     [&](const std::string& pod_uid) { return KnownDead(pod_uid); });
}

void Membership::Form(Time now) {
  ForgetWorldChanges();
  const std::vector<Member> next = Next(now);
  if (NobodyIsLeft(next)) return Stop(now, "all members were lost");
  pause_reason_ = PauseReason(next);
  phase_ = pause_reason_.empty() ? LauncherPhase::kForming : LauncherPhase::kPaused;
  if (!pause_reason_.empty()) LogWarn("Paused the training", {{"reason", pause_reason_}});
  // Without a quorum nothing is prepared: what a worker promises to us it cannot promise to others.
  if (pause_reason_ != control::kPauseNoQuorum) Prepare(now, next);
}

// To every worker of the next world, and to those of the last one that have a say in it.
void Membership::Prepare(Time now, const std::vector<Member>& next) {
  const control::Epoch epoch{options_.term, ++highest_number_};
  proposal_.emplace(epoch, next);
  prepared_at_ = now;
  LogInfo("Prepared an epoch", {{"epoch", epoch.number}, {"ranks", next.size()}});
  std::set<std::string> asked = proposal_->pods();
  for (const std::string& pod_uid : member_pods_) {
    if (!workers_.at(pod_uid).lost) asked.insert(pod_uid);
  }
  for (const std::string& pod_uid : asked) workers_.at(pod_uid).prepared = epoch;
  SendToPods(asked, control::PrepareEpoch{epoch});
}

// Connected, and yet no answer: nobody holds the others up for longer than silence would.
void Membership::DropTheUnanswering(Time now) {
  std::set<std::string> asked = proposal_->pods();
  asked.insert(member_pods_.begin(), member_pods_.end());
  bool dropped = false;
  for (const std::string& pod_uid : asked) {
    Worker& worker = workers_.at(pod_uid);
    if (!worker.connection || proposal_->Accepted(pod_uid)) continue;
    if (now - std::max(prepared_at_, worker.welcomed_at) <= options_.lost_after) continue;
    dropped = true;
    if (IsMember(pod_uid)) LoseWorker(now, worker, "NoAnswer", "it did not accept the next epoch");
    for (int slot = 0; slot < options_.slots; ++slot) cooldown_.Ended(now, pod_uid, slot);
    actions_.push_back(Drop{*worker.connection, "it did not accept the next epoch"});
    Hangup(now, worker);
  }
  if (dropped) Form(now);
}

void Membership::StartProposal(Time now) {
  const Proposal next = *std::exchange(proposal_, {});
  NoteLeavers(now);
  for (const std::string& pod_uid : member_pods_) {
    Worker& worker = workers_.at(pod_uid);
    if (next.Contains(pod_uid) || worker.lost) continue;
    if (!worker.connection) {
      Fence(worker);
      continue;
    }
    if (!Leaving(pod_uid)) continue;
    for (const int rank : RanksOf(pod_uid)) {
      const Member& member = members_[static_cast<std::size_t>(rank)];
      if (!Gone(member)) worker.stopping.insert(IdOf(member));
    }
  }
  const std::set<std::string> before = member_pods_;
  const auto difference =
      control::DifferenceFrom(epoch_, members_, next.epoch(), cohort_, next.members());
  epoch_ = known_epoch_ = next.epoch();
  SetMembers(next.members());
  formed_here_ = true;
  ++epochs_run_;
  started_at_ = now;
  seniority_.clear();
  for (const Member& member : members_) {
    seniority_.try_emplace(member.pod_uid, seniority_.size());
  }
  for (const std::string& pod_uid : member_pods_) workers_.at(pod_uid).stopping.clear();
  const auto has_left = [&](const MemberId& id) {
    const Member* member = MemberAt(std::get<0>(id), std::get<1>(id));
    return member == nullptr || member->start != std::get<2>(id);
  };
  std::erase_if(stateful_, has_left);
  std::erase_if(ended_, has_left);
  exits_.clear();
  done_.clear();
  store_.Reset(epoch_);
  ForgetWorldChanges();
  phase_ = LauncherPhase::kRunning;
  WatchWorld(now);
  LogInfo("Started an epoch", {{"epoch", epoch_.number}, {"ranks", WorldSize()}});
  SendWorld(difference);
  for (const std::string& pod_uid : before) {
    const Worker& worker = workers_.at(pod_uid);
    if (worker.stopping.empty()) continue;
    Send(worker, control::StopEpoch{epoch_, static_cast<int>(options_.stop_grace.count())});
  }
}

void Membership::NoteLoss(Time now, const Worker& worker, const std::string& cause,
                          Time last_sign) {
  LogWarn("Lost a member",
          {{"pod", worker.hello.pod}, {"node", worker.hello.node}, {"cause", cause}});
  recovery_.Lost(now, {cause, worker.hello.pod, worker.hello.node, last_sign, epoch_,
                       progress_ ? progress_->step : 0, cause == kCauseLeft});
}

}  // namespace ringmaster::launcher
