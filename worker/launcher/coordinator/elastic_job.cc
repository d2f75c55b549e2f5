// Handles the reports of an elastic job's ranks: that they have loaded, their positions, and how
// they ended.

#include "worker/launcher/coordinator/elastic_job.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/control/exit_codes.h"
#include "common/control/exit_text.h"
#include "common/control/reasons.h"

namespace ringmaster::launcher {

using control::LauncherPhase;
using control::Member;
using control::RankExit;

namespace {

// The maximum age of a rank's position, in heartbeats; kFreshSeldomBeats if heartbeats are rare.
constexpr int kFreshBeats = 10;
constexpr int kFreshSeldomBeats = 3;

}  // namespace

ElasticJob::ElasticJob(const CoordinatorOptions& options)
    : Job(options), stall_watch_(options.stall_floor, kFreshBeats * options.heartbeat) {}

bool ElasticJob::HandleMessage(Time now, Worker& worker, const control::Message& message) {
  return std::visit(
      [&](const auto& typed) {
        if constexpr (requires { On(now, worker, typed); }) {
          On(now, worker, typed);
          return true;
        } else {
          return false;
        }
      },
      message);
}

// Every rank or Pod of a world sends these messages, and the job decides after the last message.
bool ElasticJob::CanWait(const control::Message& message) const {
  if (std::holds_alternative<control::EpochAccepted>(message)) {
    return !change_.proposal || !change_.proposal->AllAccepted();
  }
  if (std::holds_alternative<control::RankAtBoundary>(message) ||
      std::holds_alternative<control::RankDone>(message)) {
    return !change_.AllReportedBoundary(done_, world_.size());
  }
  return std::holds_alternative<control::RankBroken>(message) || Job::CanWait(message);
}

void ElasticJob::Advance(Time now) {
  unsettled_ = false;
  AskForMembers(now);
  const bool over = phase_ == LauncherPhase::kFinished || released_at_;
  if (failures_.CrashLimitReached() && !over) return JudgeFailures(now);
  switch (phase_) {
    case LauncherPhase::kWaitingForOrder:
    case LauncherPhase::kFinished:
      return;
    case LauncherPhase::kWaitingForAgents:
      if (ShouldAdopt()) return BeginAdopting(now);
      JudgeFaults(now);
      if (phase_ == LauncherPhase::kWaitingForAgents) TryStart(now);
      return;
    case LauncherPhase::kStarting:
      if (ShouldAdopt()) return Stop(now, "a world of an earlier launcher is already running");
      StopIfNoLongerOrdered(now);
      if (phase_ == LauncherPhase::kStarting) JudgeEarlyExits(now);
      if (phase_ == LauncherPhase::kStarting) TryOpenGate(now);
      if (phase_ == LauncherPhase::kStarting) JudgeMpirun(now);
      return;
    case LauncherPhase::kAdopting:
      return AdvanceAdopting(now);
    case LauncherPhase::kRunning:
    case LauncherPhase::kForming:
    case LauncherPhase::kPaused:
      if (released_at_) return AdvanceReleased(now);
      AdvanceWorld(now);
      return AskForCheckpoint(now);
    case LauncherPhase::kStopping:
      return FinishStopping(now);
  }
}

void ElasticJob::On(Time now, Worker& worker, const control::RankReady& ready) {
  if (ready.slot < 0 || ready.slot >= options_.slots || ready.start.empty()) return;
  Process& process = worker.processes[ready.slot];
  if (process.exit && process.exit->start == ready.start) return;
  if (process.loaded != ready.start) process.loaded_at = now;
  process.loaded = ready.start;
  process.replaced = true;
  NoteReplaced(now, worker, ready.slot, ready.start);
}

// A slot runs one process at a time: if another process has loaded, the member has ended, even if
// the report of its exit was lost.
void ElasticJob::NoteReplaced(Time now, const Worker& worker, int slot, const std::string& start) {
  const Member* member = world_.At(worker.hello.pod_uid, slot);
  if (member == nullptr || member->start.empty() || member->start == start) return;
  const bool news = ended_.insert(IdOf(*member)).second;
  if (news && WorldCanChange() && !released_at_)
    NoteLoss(now, worker, control::kCauseRankReplaced, now);
}

// The process that ended is identified by (Pod UID, slot, start), not by the reported epoch.
void ElasticJob::On(Time now, Worker& worker, const control::RankExited& exited) {
  control::RankExit exit = exited.exit;
  if (exit.slot < 0 || exit.slot >= options_.slots || exit.start.empty()) return;
  exit.rank = -1;
  exit.pod_uid = worker.hello.pod_uid;
  exit.pod = worker.hello.pod;
  exit.node = worker.hello.node;
  const Member* member = world_.At(exit.pod_uid, exit.slot);
  const bool is_member = member != nullptr && member->start == exit.start;
  if (is_member) exit.rank = member->rank;
  Process& process = worker.processes[exit.slot];
  if (!process.NoteEnd(worker.hello.nonce, exit.start)) return;  // reported again
  if (process.loaded == exit.start) process.loaded.clear();
  checkpoints_.Forget(exit.pod_uid, exit.slot);
  process.exit = exit;
  const Time last_end = std::exchange(process.ended_at, now);
  process.replaced = false;
  const Time runs_since = is_member ? started_at_ : last_end;
  const MemberId id{exit.pod_uid, exit.slot, exit.start};
  AddStack(worker, exit);
  ended_.insert(id);
  if (is_member) {
    exits_.try_emplace(
        {exit.pod_uid, exit.slot},
        ReportedExit{.exit = exit, .arrival = exits_.size(), .leaving = worker.leaving});
    if (released_at_) released_at_ = now;
  }
  const bool was_told = worker.stopping.erase(id) > 0 || worker.leaving || released_at_ ||
                        phase_ == LauncherPhase::kStopping;
  if (was_told) return;
  cooldown_.Ended(now, exit.pod_uid, exit.slot);
  const bool device = exit.exit_code == control::kExitDeviceUnhealthy;
  const bool crashed = exit.Killed() || device || (!is_member && failures_.LoadsAgain(exit));
  if (crashed && !worker.MayHaveEnded(exit, runs_since)) {
    failures_.Crash(
        now, runs_since, exit,
        RankText(exit) + " " +
            (stalled_.contains(id) ? "hung and was stopped" : control::HowItEnded(exit)));
  }
  if (!WorldCanChange()) {
    // Before the first world runs, JudgeEarlyExits() decides whether the job fails.
    const bool counts = phase_ == LauncherPhase::kStarting && epochs_run_ > 0;
    if (counts || failures_.CrashLimitReached()) return failures_.Fail(now, exit);
    if (!exit.Clean()) failures_.Record(exit);
    return;
  }
  if (exit.Clean() && is_member && done_.contains(exit.rank)) return;
  // Other ranks train with the same arguments, so the cause of the error is on this worker.
  if (!is_member && exit.exit_code == control::kExitUserError) return failures_.Record(exit);
  failures_.Fail(now, exit);
  if (!is_member) return;
  const auto stalled = stalled_.find(id);
  if (stalled != stalled_.end()) {
    return NoteLoss(now, worker, control::kCauseStalled, stalled->second.still_since);
  }
  NoteLoss(now, worker,
           exit.out_of_memory ? control::kReasonOOMKilled
           : device           ? control::kCauseDeviceUnhealthy
           : exit.signal > 0  ? control::kCauseRankKilled
                              : control::kCauseRankExited,
           now);
}

void ElasticJob::On(Time now, Worker& worker, const control::RankAtBoundary& boundary) {
  if (KeptForLater(worker, boundary)) return;
  if (phase_ != LauncherPhase::kRunning || boundary.epoch != world_.epoch()) return;
  if (!world_.RunsIn(worker.hello.pod_uid, boundary.rank)) return;
  NoteCommitted(boundary.step);  // every rank applied the step before the boundary
  change_.ReachBoundary(now, boundary.rank);
}

void ElasticJob::On(Time now, Worker& worker, const control::RankBroken& broken) {
  if (KeptForLater(worker, broken)) return;
  if (phase_ != LauncherPhase::kRunning || broken.epoch != world_.epoch()) return;
  if (!world_.RunsIn(worker.hello.pod_uid, broken.rank)) return;
  change_.Break(now, broken);
}

void ElasticJob::On(Time /*now*/, Worker& worker, const control::EpochAccepted& accepted) {
  if (change_.proposal && accepted.epoch == change_.proposal->epoch()) {
    change_.proposal->Accept(worker.hello.pod_uid);
  }
}

void ElasticJob::On(Time now, Worker& worker, const control::WorldReport& report) {
  Job::On(now, worker, report);
  if (report.epoch.term > options_.term || report.epoch.number == 0) return;
  takeover_.Report(worker.hello.pod_uid, report);
}

// Only current members of the newest world may complete a checkpoint, and only while it runs.
void ElasticJob::On(Time /*now*/, Worker& worker, const control::CheckpointWritten& written) {
  if (KeptForLater(worker, written)) return;
  if (phase_ != LauncherPhase::kRunning) return;
  if (!checkpoints_.Grants(written, worker.hello.pod_uid, world_.epoch(), world_.members())) return;
  Send(worker, control::CheckpointGrant{written.epoch, written.rank, written.step, written.shard});
}

void ElasticJob::AskForCheckpoint(Time now) {
  if (phase_ != LauncherPhase::kRunning || released_at_) return;
  const int64_t step = CommittedStep();
  if (!checkpoints_.AskNow(now, order_->checkpoint, world_.epoch(), step)) return;
  LogInfo("Asked for a checkpoint", {{"epoch", world_.epoch().number}, {"step", step}});
  Send(workers_.At(world_.members().front().pod_uid), control::TakeCheckpoint{world_.epoch()});
}

void ElasticJob::On(Time now, Worker& worker, const control::CheckpointDone& done) {
  if (KeptForLater(worker, done)) return;
  if (done.epoch.term >= options_.term) {
    return checkpoints_.Completed(now, worker.hello.pod_uid, done);
  }
  if (!WorldCanChange()) return;
  checkpoints_.CompletedBefore(now, worker.hello.pod_uid, done, world_.members());
}

void ElasticJob::On(Time now, Worker& worker, const control::RankBegan& began) {
  if (KeptForLater(worker, began)) return;
  if (phase_ != LauncherPhase::kRunning) return;
  checkpoints_.Began(now, began, worker.hello.pod_uid, world_.epoch(), world_.members());
}

// Once the newest world has committed a step, all its members have the training state.
void ElasticJob::NoteCommitted(int64_t step) {
  Job::NoteCommitted(step);
  reformed_at_once_ = false;
  same_world_attempts_ = 0;
  if (!WorldCanChange() || std::exchange(all_stateful_, true)) return;
  unsettled_ = true;  // leaving ranks may now leave: others have the state
  for (const control::Member& member : world_.members()) {
    if (!stateful_.contains(KeyOf(member))) stateful_.insert(IdOf(member));
  }
}

// Judges ranks that ended while loading, before the world started. The start fails unless the rank
// may load again, for example after a signal killed it.
void ElasticJob::JudgeEarlyExits(Time now) {
  for (const control::Member& member : world_.members()) {
    Worker& worker = workers_.At(member.pod_uid);
    if (!worker.connection || !worker.repeated) continue;  // the agent may report a newer process
    const Process& process = worker.processes[member.slot];
    if (!process.loaded.empty() || !process.exit || process.replaced) continue;
    // After this exit code, the agent leaves the job, and the rank loads in another Pod.
    const bool device = process.exit->exit_code == control::kExitDeviceUnhealthy;
    const bool may_load_again =
        process.exit->Killed() || device ||
        (epochs_run_ > 0 && process.exit->exit_code != control::kExitUserError);
    const bool too_late = startup_.AllAttached() && now - std::max(started_at_, process.ended_at) >=
                                                        options_.load_again_within;
    if (may_load_again && !too_late) continue;
    if (failures_.Lists(member.pod_uid, member.slot)) continue;
    RankExit exit = *process.exit;
    exit.rank = member.rank;
    failures_.FailStart(now, exit);
  }
  JudgeFailures(now);
}

void ElasticJob::JudgeFailures(Time now) {
  if (const auto culprit = failures_.Judge(now)) FailBy(now, *culprit);
}

bool ElasticJob::WorldUnknown() const {
  return phase_ == LauncherPhase::kWaitingForOrder || phase_ == LauncherPhase::kWaitingForAgents ||
         phase_ == LauncherPhase::kStarting || phase_ == LauncherPhase::kAdopting;
}

// A silent worker may still run, so it is fenced only when a world starts without it.
void ElasticJob::LoseWorker(Time now, Worker& worker, const std::string& cause,
                            const std::string& reason) {
  if (!WorldCanChange()) return Job::LoseWorker(now, worker, cause, reason);
  if (released_at_) return;  // all ranks have finished, so a loss has no effect
  worker.standing = Standing::kSilent;
  NoteLoss(now, worker, cause, worker.last_heard);
}

void ElasticJob::Fence(Worker& worker) {
  cooldown_.Forget(worker.hello.pod_uid);
  Job::Fence(worker);
}

// Sends the messages that a reconnecting agent may have missed on the old connection; the agent
// ignores messages that it already received.
void ElasticJob::Welcome(Worker& worker) {
  const std::string& pod_uid = worker.hello.pod_uid;
  const bool member = world_.Contains(pod_uid);
  if (phase_ == LauncherPhase::kRunning && member) {
    Send(worker, StartOfWorld());
    worker.told = world_.epoch();
    if (change_.switching) Send(worker, control::SwitchEpoch{world_.epoch(), Leaving(pod_uid)});
    if (released_at_) Send(worker, control::Release{world_.epoch()});
    RepeatEndsOfStalledRanks(worker);
  } else if (phase_ == LauncherPhase::kStopping && member) {
    Send(worker, StopWorld());
  } else if (change_.proposal && (member || change_.proposal->Contains(pod_uid))) {
    Send(worker, control::PrepareEpoch{change_.proposal->epoch()});
  }
  if (!member && !worker.stopping.empty()) {
    Send(worker, StopWorld());
  }
}

void ElasticJob::NoteEnd(Time now, const Member& member) {
  ended_.insert(IdOf(member));
  cooldown_.Ended(now, member.pod_uid, member.slot);
}

bool ElasticJob::EndIsKnown(const Member& member) const { return ended_.contains(KeyOf(member)); }

void ElasticJob::OnLateTick(Time now) {
  change_.prepared_at = now;
  stall_watch_.Restart(now);
  for (auto& [id, stalled] : stalled_) stalled.asked_at = now;
}

void ElasticJob::NoteHeartbeat(std::chrono::milliseconds beat) {
  stall_watch_.set_fresh(std::max(kFreshBeats * options_.heartbeat, kFreshSeldomBeats * beat));
}

void ElasticJob::NoteStart() {
  done_.clear();
  takeover_.ForgetEarly();
  all_stateful_ = false;
}

// Adds the loaded processes to the world. Returns whether all ranks of the world have loaded.
bool ElasticJob::AllLoaded() {
  for (const Member& member : world_.members()) {
    world_.Load(member.rank, workers_.At(member.pod_uid).processes[member.slot].loaded);
    if (member.start.empty()) return false;
  }
  return true;
}

void ElasticJob::NoteOpenGate(Time now) {
  WatchWorld(now);
  known_epoch_ = world_.epoch();
  formed_here_ = true;
  stateful_.clear();
  all_stateful_ = false;
  ended_.clear();
}

void ElasticJob::ForgetChange(bool ranks_ran) {
  change_ = {};
  if (ranks_ran) takeover_.ForgetReports();
}

void ElasticJob::NoteWorldOver() {
  done_.clear();
  stateful_.clear();
  all_stateful_ = false;
}

}  // namespace ringmaster::launcher
