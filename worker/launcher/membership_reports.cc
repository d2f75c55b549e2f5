// What ranks report through their agents: that they are loaded, where they stand, how they ended.

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/log.h"
#include "common/control/exit_text.h"
#include "common/control/pod_contract.h"
#include "worker/launcher/membership.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;
using control::Member;

constexpr std::size_t kMaxFailures = 16;  // in the status
constexpr std::size_t kMaxFailureLines = 3;
constexpr std::size_t kMaxEarly = 4 * control::kMaxRanks;  // of each rank, as much as it says

}  // namespace

void Membership::On(Time now, Worker& worker, const control::RankReady& ready) {
  if (ready.slot < 0 || ready.slot >= options_.slots || ready.start.empty()) return;
  Process& process = worker.processes[ready.slot];
  if (process.exit && process.exit->start == ready.start) return;
  if (process.loaded != ready.start) process.loaded_at = now;
  process.loaded = ready.start;
  process.replaced = true;
  NoteReplaced(now, worker, ready.slot, ready.start);
}

// A slot runs one process: when another than the member's has loaded, the member has ended, also
// where the report of that was lost.
void Membership::NoteReplaced(Time now, const Worker& worker, int slot, const std::string& start) {
  const Member* member = MemberAt(worker.hello.pod_uid, slot);
  if (member == nullptr || member->start.empty() || member->start == start) return;
  const bool news = ended_.insert(IdOf(*member)).second;
  if (news && Elastic() && !released_at_) NoteLoss(now, worker, "RankReplaced", now);
}

void Membership::On(Time now, Worker& worker, const control::RankExited& exited) {
  if (options_.managed) return OnManagedExit(now, worker, exited);
  if (exited.epoch != epoch_ || !IsMember(worker.hello.pod_uid)) return;
  if (phase_ != LauncherPhase::kRunning && phase_ != LauncherPhase::kStopping) return;
  const Slot slot{worker.hello.pod_uid, exited.exit.slot};
  const Member* member = MemberAt(slot.first, slot.second);
  if (member == nullptr) return;
  control::RankExit exit = exited.exit;
  exit.rank = member->rank;
  exit.pod_uid = member->pod_uid;
  exit.pod = member->pod;
  exit.node = member->node;
  exits_.try_emplace(slot, ReportedExit{std::move(exit), exits_.size()});
}

bool Membership::WorldUnknown() const {
  return options_.managed &&
         (phase_ == LauncherPhase::kWaitingForOrder || phase_ == LauncherPhase::kWaitingForAgents ||
          phase_ == LauncherPhase::kStarting || phase_ == LauncherPhase::kAdopting);
}

void Membership::KeepForLater(const Worker& worker, int rank, control::Message message) {
  const std::tuple key(worker.hello.pod_uid, rank, message.index());
  if (early_.size() < kMaxEarly || early_.contains(key)) early_[key] = std::move(message);
}

// Of our own trainer: who ended is (Pod UID, slot, start), whatever epoch its agent names.
void Membership::OnManagedExit(Time now, Worker& worker, const control::RankExited& exited) {
  control::RankExit exit = exited.exit;
  if (exit.slot < 0 || exit.slot >= options_.slots) return;
  exit.rank = -1;
  exit.pod_uid = worker.hello.pod_uid;
  exit.pod = worker.hello.pod;
  exit.node = worker.hello.node;
  const Member* member = MemberAt(exit.pod_uid, exit.slot);
  const bool is_member =
      member != nullptr && !member->start.empty() &&
      (member->start == exit.start || (exit.start.empty() && exited.epoch == epoch_));
  if (is_member) {
    exit.rank = member->rank;
    exit.start = member->start;
  }
  Process& process = worker.processes[exit.slot];
  if (process.exit && process.exit->start == exit.start) return;  // said again
  if (process.loaded == exit.start) process.loaded.clear();
  safekeeping_.Forget(exit.pod_uid, exit.slot);
  process.exit = exit;
  const Time last_end = std::exchange(process.ended_at, now);
  process.replaced = false;
  const Time runs_since = is_member ? started_at_ : last_end;
  const MemberId id{exit.pod_uid, exit.slot, exit.start};
  AddStack(worker, exit);
  ended_.insert(id);
  if (is_member) {
    exits_.try_emplace({exit.pod_uid, exit.slot}, ReportedExit{exit, exits_.size()});
  }
  const bool was_told = worker.stopping.erase(id) > 0 || worker.leaving || released_at_ ||
                        phase_ == LauncherPhase::kStopping;
  if (was_told) return;
  cooldown_.Ended(now, exit.pod_uid, exit.slot);
  if (exit.Killed() || (!is_member && LoadsAgain(exit))) NoteCrash(now, exit, runs_since);
  if (!Elastic()) {
    // Before the first world JudgeEarlyExits decides.
    const bool counts = phase_ == LauncherPhase::kStarting && epochs_run_ > 0;
    if (counts || crashes_.Reached()) return NoteFailure(now, exit);
    if (!exit.Clean()) KeepFailure(exit);
    return;
  }
  if (exit.Clean() && is_member && done_.contains(exit.rank)) return;
  // Others train with the same arguments: it is this worker that something is wrong with.
  if (!is_member && exit.exit_code == control::kExitUserError) return KeepFailure(exit);
  NoteFailure(now, exit);
  if (!is_member) return;
  const auto stalled = stalled_.find(id);
  if (stalled != stalled_.end()) {
    return NoteLoss(now, worker, "Stalled", stalled->second.still_since);
  }
  NoteLoss(now, worker,
           exit.out_of_memory ? control::kReasonOOMKilled
           : exit.signal > 0  ? "RankKilled"
                              : "RankExited",
           now);
}

// Its agent starts another process in its place, which may well end like this one.
bool Membership::LoadsAgain(const control::RankExit& exit) const {
  return exit.exit_code != 0 && exit.exit_code != control::kExitUserError &&
         exit.exit_code != control::kExitCannotStart &&
         !options_.exit_codes.ignored.contains(exit.exit_code);
}

// A rank was killed, or ended while it loaded. `since`: see CrashLimit.
void Membership::NoteCrash(Time now, const control::RankExit& exit, Time since) {
  newest_crash_ = RankText(exit) + " " + control::HowItEnded(exit);
  crashes_.Count(now, since, exit.out_of_memory.has_value());
}

// A rank ended while the job goes on: for the status, and for the limit. That it was killed does
// not count there, but may be what the others' ends come from.
void Membership::NoteFailure(Time now, const control::RankExit& exit) {
  KeepFailure(exit);
  if (!first_failure_at_) first_failure_at_ = now;
  failing_.push_back(exit);
  if (FailsAtOnce(exit)) {
    must_fail_ = true;
  } else if (!exit.Killed() && !options_.exit_codes.ignored.contains(exit.exit_code) &&
             !restarts_.Count(now)) {
    must_fail_ = true;
  }
}

// For the status. What is known of an end may be heard again by a launcher that takes over.
void Membership::KeepFailure(control::RankExit exit) {
  std::erase_if(failures_, [&](const control::RankExit& known) {
    return !exit.start.empty() && known.pod_uid == exit.pod_uid && known.slot == exit.slot &&
           known.start == exit.start;
  });
  std::vector<std::string>& lines = exit.last_lines;
  if (lines.size() > kMaxFailureLines) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kMaxFailureLines));
  }
  // The newest stack is kept: the status has a size.
  for (control::RankExit& earlier : failures_) {
    if (!exit.stack.empty()) earlier.stack.clear();
  }
  failures_.push_back(std::move(exit));
  if (failures_.size() > kMaxFailures) failures_.pop_front();
}

void Membership::On(Time now, Worker& worker, const control::RankProgress& progress) {
  if (progress.epoch != epoch_ || phase_ != LauncherPhase::kRunning ||
      !IsMember(worker.hello.pod_uid)) {
    return;
  }
  progress_ = progress.progress;
  NoteCommitted(progress.progress.step);
  recovery_.Progressed(now, epoch_, progress.progress.step);
}

void Membership::On(Time now, Worker& worker, const control::RankDone& done) {
  if (KeptForLater(worker, done)) return;
  if (done.epoch != epoch_ || phase_ != LauncherPhase::kRunning || released_at_) return;
  if (done.rank < 0 || done.rank >= WorldSize() ||
      members_[static_cast<std::size_t>(done.rank)].pod_uid != worker.hello.pod_uid) {
    return;
  }
  NoteCommitted(progress_ ? progress_->step : 0);
  done_.insert(done.rank);
  if (done.rank == 0) nothing_trained_ = !done.trained;
  if (static_cast<int>(done_.size()) < WorldSize()) return;
  const bool someone_missing =
      Elastic() && std::any_of(members_.begin(), members_.end(), [&](const auto& member) {
        const auto exit = exits_.find({member.pod_uid, member.slot});
        return Gone(member) && (exit == exits_.end() || !exit->second.exit.Clean());
      });
  if (someone_missing) return;  // the next world asks them again
  released_at_ = now;
  SendToPods(member_pods_, control::Release{epoch_});
}

void Membership::On(Time now, Worker& worker, const control::RankAtBoundary& boundary) {
  if (KeptForLater(worker, boundary)) return;
  if (!Elastic() || phase_ != LauncherPhase::kRunning || boundary.epoch != epoch_) return;
  if (boundary.rank < 0 || boundary.rank >= WorldSize() ||
      members_[static_cast<std::size_t>(boundary.rank)].pod_uid != worker.hello.pod_uid) {
    return;
  }
  NoteCommitted(boundary.step);  // the step before the boundary was everybody's
  at_boundary_.insert(boundary.rank);
  if (!first_at_boundary_) first_at_boundary_ = now;
}

void Membership::On(Time now, Worker& worker, const control::RankBroken& broken) {
  if (KeptForLater(worker, broken)) return;
  if (!Elastic() || phase_ != LauncherPhase::kRunning || broken.epoch != epoch_) return;
  if (broken.rank < 0 || broken.rank >= WorldSize() ||
      members_[static_cast<std::size_t>(broken.rank)].pod_uid != worker.hello.pod_uid) {
    return;
  }
  if (!first_broken_at_) first_broken_at_ = now;
  broken_[broken.rank] = broken;
}

void Membership::On(Time /*now*/, Worker& worker, const control::EpochAccepted& accepted) {
  if (proposal_ && accepted.epoch == proposal_->epoch()) {
    proposal_->Accept(worker.hello.pod_uid);
  }
}

void Membership::On(Time /*now*/, Worker& worker, const control::WorldReport& report) {
  highest_number_ = std::max(highest_number_, report.epoch.number);
  if (!options_.managed || report.epoch.term > options_.term || report.epoch.number == 0) return;
  adoption_.Report(worker.hello.pod_uid, report);
}

void Membership::On(Time /*now*/, Worker& worker, const control::SlotOutput& output) {
  const std::string whose = output.rank >= 0 ? "1," + std::to_string(output.rank)
                                             : worker.hello.pod + "/" + std::to_string(output.slot);
  actions_.push_back(Print{whose, output.is_stderr, output.data});
}

// Only the newest world's own members may complete a checkpoint, and only while it runs.
void Membership::On(Time /*now*/, Worker& worker, const control::CheckpointWritten& written) {
  if (KeptForLater(worker, written)) return;
  if (!Elastic() || phase_ != LauncherPhase::kRunning) return;
  if (!safekeeping_.Grants(written, worker.hello.pod_uid, epoch_, members_)) return;
  Send(worker, control::CheckpointGrant{written.epoch, written.rank, written.step, written.shard});
}

void Membership::AskForCheckpoint(Time now) {
  if (!Elastic() || phase_ != LauncherPhase::kRunning || released_at_ || members_.empty()) return;
  const int64_t step = progress_ ? progress_->step : 0;
  if (!safekeeping_.AskNow(now, order_ && order_->checkpoint, epoch_, step)) return;
  LogInfo("Asked for a checkpoint", {{"epoch", epoch_.number}, {"step", step}});
  Send(workers_.at(members_.front().pod_uid), control::TakeCheckpoint{epoch_});
}

void Membership::On(Time now, Worker& worker, const control::CheckpointDone& done) {
  if (KeptForLater(worker, done)) return;
  if (done.epoch.term >= options_.term) {
    return safekeeping_.Completed(now, worker.hello.pod_uid, done);
  }
  if (!Elastic()) return;
  safekeeping_.CompletedBefore(now, worker.hello.pod_uid, done, members_);
}

void Membership::On(Time now, Worker& worker, const control::RankBegan& began) {
  if (KeptForLater(worker, began)) return;
  if (!Elastic() || phase_ != LauncherPhase::kRunning) return;
  safekeeping_.Began(now, began, worker.hello.pod_uid, epoch_, members_);
}

void Membership::On(Time /*now*/, Worker& worker, const control::RankProtection& protection) {
  if (protection.slot < 0 || protection.slot >= options_.slots || protection.what.size() > 32) {
    return;
  }
  safekeeping_.Protection(worker.hello.pod_uid, worker.hello.pod, protection);
}

// A step of the newest world is committed: each of its members has adopted the state.
void Membership::NoteCommitted(int64_t step) {
  same_world_attempts_ = 0;
  crashes_.Committed(step);
  if (!Elastic() || std::exchange(all_stateful_, true)) return;
  unsettled_ = true;  // leavers may go, now that others have the state
  for (const control::Member& member : members_) {
    if (!stateful_.contains(KeyOf(member))) stateful_.insert(IdOf(member));
  }
}

}  // namespace ringmaster::launcher
