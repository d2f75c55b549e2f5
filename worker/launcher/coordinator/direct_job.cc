// Runs a program whose ranks do not speak the rank protocol.

#include "worker/launcher/coordinator/direct_job.h"

#include <algorithm>
#include <csignal>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/base/count_text.h"
#include "common/base/log.h"
#include "common/control/exit_codes.h"
#include "common/control/exit_text.h"
#include "common/control/reasons.h"

namespace ringmaster::launcher {

using control::LauncherPhase;
using control::Member;
using control::RankExit;

namespace {

// A program that ends within this time after its start counts as having made no progress.
constexpr std::chrono::minutes kSoon{1};

// Only ranks of elastic jobs send these messages; they are ignored here.
template <typename T>
constexpr bool kOfOurTrainer =
    std::is_same_v<T, control::RankReady> || std::is_same_v<T, control::EpochAccepted> ||
    std::is_same_v<T, control::RankBroken> || std::is_same_v<T, control::RankAtBoundary> ||
    std::is_same_v<T, control::RankDone> || std::is_same_v<T, control::RankStack> ||
    std::is_same_v<T, control::CheckpointWritten> || std::is_same_v<T, control::CheckpointDone> ||
    std::is_same_v<T, control::RankBegan>;

std::string WhyNotStarted(const RankExit& exit) {
  return "could not be started" + (exit.last_lines.empty() ? "" : ": " + exit.last_lines.back());
}

}  // namespace

bool DirectJob::HandleMessage(Time now, Worker& worker, const control::Message& message) {
  return std::visit(
      [&](const auto& typed) {
        if constexpr (requires { On(now, worker, typed); }) {
          On(now, worker, typed);
          return true;
        } else {
          return kOfOurTrainer<std::decay_t<decltype(typed)>>;
        }
      },
      message);
}

void DirectJob::Advance(Time now) {
  unsettled_ = false;
  switch (phase_) {
    case LauncherPhase::kWaitingForAgents:
      SucceedIfCompleted(now);
      if (phase_ == LauncherPhase::kWaitingForAgents) JudgeFaults(now);
      if (phase_ == LauncherPhase::kWaitingForAgents) TryStart(now);
      return;
    case LauncherPhase::kStarting:
      StopIfNoLongerOrdered(now);
      if (phase_ == LauncherPhase::kStarting) TryOpenGate(now);
      if (phase_ == LauncherPhase::kStarting) JudgeMpirun(now);
      return;
    case LauncherPhase::kRunning:
      if (released_at_) return FinishIfReleased(now);
      JudgeExits(now);
      if (phase_ == LauncherPhase::kRunning) JudgeStall(now);
      if (phase_ == LauncherPhase::kRunning) ReformIfNeeded(now);
      return;
    case LauncherPhase::kStopping:
      return FinishStopping(now);
    default:
      return;
  }
}

void DirectJob::On(Time /*now*/, Worker& worker, const control::RankExited& exited) {
  if (exited.epoch != world_.epoch() || !world_.Contains(worker.hello.pod_uid)) return;
  if (phase_ != LauncherPhase::kRunning && phase_ != LauncherPhase::kStopping) return;
  const Slot slot{worker.hello.pod_uid, exited.exit.slot};
  const Member* member = world_.At(slot.first, slot.second);
  if (member == nullptr) return;
  control::RankExit exit = exited.exit;
  // If the exit has a rank, the program ran, so the code does not mean "not started".
  const bool not_started = exit.rank < 0 && exit.exit_code == control::kExitNotStarted;
  exit.rank = member->rank;
  exit.pod_uid = member->pod_uid;
  exit.pod = member->pod;
  exit.node = member->node;
  exits_.try_emplace(slot, ReportedExit{std::move(exit), exits_.size(), not_started});
}

void DirectJob::On(Time now, Worker& worker, const control::RankPositions& report) {
  if (report.epoch != world_.epoch() || !world_.Contains(worker.hello.pod_uid)) return;
  for (const control::RankPosition& position : report.ranks) {
    const Time sign = now - std::chrono::milliseconds(position.still_millis);
    last_sign_ = std::max(last_sign_, sign);
    if (!world_.RunsIn(worker.hello.pod_uid, position.rank)) continue;
    Time& of_rank = last_signs_[position.rank];
    of_rank = std::max(of_rank, sign);
  }
}

void DirectJob::On(Time now, Worker& worker, const control::WorldReport& report) {
  Job::On(now, worker, report);
  if (report.epoch.term >= options_.term) return;
  completed_[worker.hello.pod_uid] = report.epoch;
  const bool newer = report.epoch > newest_completed_.epoch;
  if (newer && !report.members.empty()) newest_completed_ = report;
}

// Succeeds if the program completed on all members of an earlier launcher's world, and that
// launcher was lost before its verdict.
void DirectJob::SucceedIfCompleted(Time now) {
  const auto completed = [this](const Member& member) {
    const auto world = completed_.find(member.pod_uid);
    return world != completed_.end() && world->second == newest_completed_.epoch;
  };
  const std::vector<Member>& members = newest_completed_.members;
  if (epochs_run_ > 0 || members.empty() || !std::ranges::all_of(members, completed)) return;
  LogInfo("Found that the program has completed",
          {{"term", newest_completed_.epoch.term}, {"epoch", newest_completed_.epoch.number}});
  world_ = CurrentWorld(newest_completed_.epoch, members);
  for (const Member& member : members) exits_[{member.pod_uid, member.slot}].exit.exit_code = 0;
  Succeed(now);
}

// Judges the reported exits of ranks. Called while the start gate is open.
void DirectJob::JudgeExits(Time now) {
  std::vector<const ReportedExit*> failures;
  int clean = 0;
  for (const auto& [slot, reported] : exits_) {
    const RankExit& exit = reported.exit;
    if (exit.Clean()) {
      ++clean;
    } else {
      failures.push_back(&reported);
    }
  }
  if (clean == world_.size()) {
    released_at_ = now;
    return FinishIfReleased(now);
  }
  if (failures.empty()) {
    // mpirun started the program, so the program ends when mpirun ends.
    if (!startup_.mpirun_exit() || now - startup_.mpirun_exited_at() < options_.peer_lost_settle ||
        !AllMembersReportedSince(startup_.mpirun_exited_at() + options_.settle)) {
      return;
    }
    const MpirunExit& exit = *startup_.mpirun_exit();
    return Fail(now,
                {control::kReasonMpirunFailed,
                 "mpirun exited while the program was running; " + PrintedText(exit.last_lines),
                 std::max(1, exit.exit_code)});
  }
  const auto blame = failures_.JudgeExits(now, failures);
  if (blame && AllMembersReportedSince(blame->reported_since)) FailOrStartAgain(now, blame->end);
}

// Restarts the program, unless it has failed too often. The launcher does not know the steps of the
// program, so a long run counts as progress.
void DirectJob::FailOrStartAgain(Time now, const ReportedExit& end) {
  const RankExit& exit = end.exit;
  const std::optional<MpirunExit>& mpirun = startup_.mpirun_exit();
  if (exit.signal == SIGTERM && mpirun && mpirun->signal > 0) {
    // If mpirun is killed, for example because its Pod lacks memory, its daemons end the ranks.
    return FailOrStartAgainAfterCrash(
        now, control::kCauseRankKilled,
        "mpirun was killed by signal " + std::to_string(mpirun->signal) +
            " in the launcher's Pod; " + PrintedText(mpirun->last_lines),
        128 + mpirun->signal, std::nullopt);
  }
  if (exit.exit_code == control::kExitCannotStart) return FailBy(now, exit);
  const std::string how = end.not_started ? WhyNotStarted(exit) : control::HowItEnded(exit);
  const std::string text = RankText(exit) + " " + how;
  const bool soon = failures_.Counts(exit) && now - gate_opened_at_ < kSoon;
  failures_.ForgetCrashes(now - options_.restart_window);
  const bool by_agent = workers_.At(exit.pod_uid).MayHaveEnded(exit, gate_opened_at_);
  const bool crashed = exit.Killed() || soon || end.not_started;
  if (crashed && !by_agent) failures_.Crash(now, gate_opened_at_, exit, text);
  RankExit one_of_many = exit;
  one_of_many.start = "epoch " + std::to_string(world_.epoch().number);
  if (end.not_started) {
    failures_.Record(one_of_many);
    if (failures_.CrashLimitReached()) {
      return Fail(now, {control::kReasonCrashLoop, failures_.CrashText(), exit.exit_code, exit});
    }
  } else {
    failures_.Fail(now, one_of_many);
    if (failures_.MustFail()) return FailBy(now, exit);
  }
  PauseBeforeNextStart(now);
  const char* killed = exit.out_of_memory ? control::kReasonOOMKilled : control::kCauseRankKilled;
  Stop(now, text, exit.Killed() ? killed : control::kCauseRankExited, &workers_.At(exit.pod_uid));
}

void DirectJob::FailOrStartAgainAfterCrash(Time now, const char* cause, const std::string& text,
                                           int exit_code, const std::optional<RankExit>& of) {
  failures_.ForgetCrashes(now - options_.restart_window);
  failures_.Crash(now, gate_opened_at_, {}, text);
  if (failures_.CrashLimitReached()) {
    return Fail(now, {control::kReasonCrashLoop, failures_.CrashText(), exit_code, of});
  }
  if (of) failures_.Record(*of);
  PauseBeforeNextStart(now);
  Stop(now, text, cause, of ? &workers_.At(of->pod_uid) : nullptr);
}

// Restarts a silent program if the user has limited how long it may be silent. The launcher does
// not know for which rank the others wait, so it names the rank that has been silent for longest.
void DirectJob::JudgeStall(Time now) {
  const Time last = std::max(last_sign_, gate_opened_at_);
  if (options_.stall_floor.count() == 0 || now - last < options_.stall_floor) return;
  Silence silence = LongestSilence();
  const std::string all =
      "the program hangs: no rank printed anything or touched its heartbeat file "
      "(RINGMASTER_HEARTBEAT) for " +
      std::to_string(options_.stall_floor.count() / 1000) + " s; ";
  const std::string longest =
      " was silent for longest, for " +
      std::to_string(std::chrono::floor<std::chrono::seconds>(now - silence.since).count()) + " s";
  silence.of.last_lines = {all + "this rank" + longest};
  const std::string text = all + RankText(silence.of) + longest +
                           "; see \"kubectl trainingjob logs\" for the last output of each rank; "
                           "correct the program, or raise "
                           "faultTolerance.stallAfterSeconds if it may be silent for longer";
  FailOrStartAgainAfterCrash(now, control::kCauseStalled, text, control::kExitFailed, silence.of);
}

DirectJob::Silence DirectJob::LongestSilence() const {
  const auto since = [this](const Member& member) {
    const auto sign = last_signs_.find(member.rank);
    return sign == last_signs_.end() ? gate_opened_at_ : std::max(sign->second, gate_opened_at_);
  };
  const Member& member =
      *std::min_element(world_.members().begin(), world_.members().end(),
                        [&](const Member& a, const Member& b) { return since(a) < since(b); });
  Silence silence;
  silence.since = since(member);
  silence.of.rank = member.rank;
  silence.of.pod_uid = member.pod_uid;
  silence.of.pod = member.pod;
  silence.of.node = member.node;
  silence.of.slot = member.slot;
  silence.of.start = "epoch " + std::to_string(world_.epoch().number);
  return silence;
}

// The pause grows with the number of recent ends of the program. Its limit is a quarter of the time
// that the program last ran, but at least kShortest.
void DirectJob::PauseBeforeNextStart(Time now) {
  const auto ran = std::chrono::duration_cast<std::chrono::milliseconds>(now - gate_opened_at_);
  failed_starts_.Ended(now, {}, 0,
                       std::max<std::chrono::milliseconds>(Cooldown::kShortest, ran / 4));
}

// Stops the running world if a member is no longer ordered, or if a larger world can start: all
// ordered workers are ready, or the ready ones have waited long enough for the others.
void DirectJob::ReformIfNeeded(Time now) {
  if (StopIfNoLongerOrdered(now)) return;
  const std::vector<std::string> ready = ReadyInRankOrder();
  Time oldest_joiner = now;
  int joiners = 0;
  for (const std::string& pod_uid : ready) {
    if (world_.Contains(pod_uid)) continue;
    ++joiners;
    oldest_joiner = std::min(oldest_joiner, workers_.At(pod_uid).ready_since);
  }
  const int more = SizeOfWorld(ready.size()) - static_cast<int>(world_.pods().size());
  if (joiners == 0 || more <= 0) return;
  // A member that reconnects becomes ready again, so AllReady() waits for such a member.
  if (AllReady(ready) || now - std::max(oldest_joiner, LastFilled()) >= options_.partial_after) {
    Stop(now, CountText(std::min(joiners, more), "worker", "joins", "join"),
         control::kCauseWorkersJoin);
  }
}

// Sends the messages that a reconnecting agent may have missed on the old connection; the agent
// ignores messages that it already received.
void DirectJob::Welcome(Worker& worker) {
  const bool member = world_.Contains(worker.hello.pod_uid);
  const control::Epoch& last = worker.hello.highest_epoch;
  if (last.number > 0 && (!member || last < world_.epoch())) {
    // The reported world has ended, but a disconnected worker may still run its ranks.
    control::StopEpoch stop = StopWorld();
    stop.epoch = last;
    Send(worker, stop);
  }
  if (!member) return;
  if (phase_ == LauncherPhase::kRunning) {
    Send(worker, StartOfWorld());
    worker.told = world_.epoch();
    if (released_at_) Send(worker, control::Release{world_.epoch()});
  } else if (phase_ == LauncherPhase::kStopping) {
    Send(worker, StopWorld());
  }
}

void DirectJob::NoteOpenGate(Time now) {
  gate_opened_at_ = now;
  last_signs_.clear();
  NoteRestartByLauncher();
  recovery_.Progressed(now, world_.epoch(), 0);
}

// Names ready workers that stand by because elasticity.allowedSizes allows no larger world.
std::string DirectJob::WorldText() const {
  const std::string filling = FillingText();
  if (!filling.empty() || options_.allowed_sizes.empty() || !order_) return filling;
  std::set<std::string> spare;
  for (const std::string& pod_uid : ReadyInRankOrder()) {
    if (!world_.Contains(pod_uid)) spare.insert(pod_uid);
  }
  if (spare.empty()) return "";
  return NamesOf(spare) + (spare.size() == 1 ? " stands" : " stand") +
         " by: elasticity.allowedSizes does not allow a larger world with the ready workers";
}

// Begins the record of a recovery, because the program has to restart.
void DirectJob::NoteStop(Time now, const char* word, const Worker* worker) {
  RecoveryWatch::Loss loss{word, "", "", now, world_.epoch()};
  if (worker != nullptr) {
    loss.pod = worker->hello.pod;
    loss.node = worker->hello.node;
    loss.last_sign = worker->last_heard;
  }
  if (word == std::string_view(control::kCauseStalled)) loss.last_sign = LongestSilence().since;
  loss.started = gate_opened_at_;
  recovery_.Lost(now, loss);
}

// Records the loss of the previous launcher as the cause of this start, if agents know a world of
// that launcher and no other loss is recorded yet.
void DirectJob::NoteRestartByLauncher() {
  const bool had_run =
      std::any_of(world_.pods().begin(), world_.pods().end(), [&](const std::string& pod_uid) {
        const control::Epoch& highest = workers_.At(pod_uid).hello.highest_epoch;
        return highest.number > 0 && highest.term < options_.term;
      });
  if (!had_run) return;
  RecoveryWatch::Loss loss{control::kCauseLauncherLost, "", "", waiting_since_, {}};
  loss.started = Time{};
  recovery_.Lost(waiting_since_, loss);
}

JobTimes DirectJob::Times(Time /*now*/) const {
  JobTimes times;
  times.epoch = world_.epoch().number;
  return times;
}

}  // namespace ringmaster::launcher
