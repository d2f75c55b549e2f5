// How the job ended, and who failed first. Nobody is blamed before every other suspect has been
// heard again: a rank that ends because a worker vanished looks like a failure until that worker's
// silence is noticed.

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "common/base/log.h"
#include "common/control/exit_text.h"
#include "common/control/pod_contract.h"
#include "worker/launcher/membership.h"

namespace ringmaster::launcher {
namespace {

using control::HowItEnded;
using control::LauncherPhase;
using control::RankExit;

constexpr int kOfVictims = 3;  // from this suspicion on
constexpr std::array kProgramsToMatch = {"openmpi", "ringmaster"};

// Rules and frames are no words.
bool SaysSomething(const std::string& line) {
  return std::any_of(line.begin(), line.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80;  // a letter of any script
  });
}

std::string Trimmed(const std::string& line) {
  constexpr char kBlank[] = " \t\r\n";
  const std::size_t begin = line.find_first_not_of(kBlank);
  return begin == std::string::npos ? ""
                                    : line.substr(begin, line.find_last_not_of(kBlank) + 1 - begin);
}

// The last line with words. Of a text between two rules, as mpirun's messages are, all of it: its
// last line is seldom the one that says what is wrong.
std::string LastWords(const std::vector<std::string>& lines) {
  std::string words;
  bool framed = false;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (SaysSomething(*line)) {
      words = words.empty() ? Trimmed(*line) : Trimmed(*line) + ' ' + words;
      if (!framed) return words;
    } else if (line->starts_with("-----")) {
      if (!words.empty()) return words;
      framed = true;
    }
  }
  return words;
}

std::string Printed(const std::vector<std::string>& lines) {
  const std::string last = LastWords(lines);
  return last.empty() ? "it printed nothing" : "it printed last: " + last;
}

int ExitCodeFor(const RankExit& exit) {
  if (exit.signal > 0) return 128 + exit.signal;
  return exit.exit_code > 0 ? exit.exit_code : 1;
}

}  // namespace

bool Membership::FailsAtOnce(const RankExit& exit) const {
  return exit.signal == 0 && (exit.exit_code == control::kExitUserError ||
                              options_.exit_codes.fail.contains(exit.exit_code));
}

// Causes before victims: the user's error, then a lack of memory, then what a rank did by itself,
// then what was done to it, then ranks that say themselves that they only lost a peer.
int Membership::Suspicion(const RankExit& exit) const {
  if (FailsAtOnce(exit)) return 0;
  if (exit.out_of_memory) return 1;
  if (exit.exit_code == control::kExitPeerLost) return kOfVictims + 1;
  return exit.signal == 15 ? kOfVictims : 2;
}

void Membership::JudgeFaults(Time now) {
  std::vector<const Worker*> faulty;
  int ready = 0;
  for (const control::DesiredWorker& wanted : order_->workers) {
    const auto worker = workers_.find(wanted.pod_uid);
    if (worker == workers_.end() || !worker->second.ready || worker->second.leaving) continue;
    if (worker->second.ready->faults.empty()) {
      ++ready;
    } else {
      faulty.push_back(&worker->second);
    }
  }
  if (faulty.empty()) return fault_seen_.reset();
  if (!fault_seen_) fault_seen_ = now;
  const int unreported = order_->replicas - ready - static_cast<int>(faulty.size());
  const bool complete = unreported <= 0 || now - *fault_seen_ >= options_.fault_settle;
  // A replacement with a fault costs a place, not the job, as long as enough others can train.
  const bool hopeless = ready + std::max(0, unreported) < std::max(1, order_->min_replicas);
  if (!complete || (epochs_run_ > 0 && !hopeless)) return;

  std::string text;
  for (const Worker* worker : faulty) {
    const control::PreflightFault& fault = worker->ready->faults.front();
    if (text.size() > 1500) {
      text += "; and more";
      break;
    }
    text += (text.empty() ? "" : "; ") + NameOf(worker->hello.pod_uid) + " failed the check '" +
            fault.check + "': " + fault.message;
  }
  Fail(now, control::kReasonPreflightFailed, text, 1);
}

// Workers that cannot form a world together, in a sentence; empty where they can. Different builds
// of Open MPI fail with words that lead nobody to the cause.
std::string Membership::MixedText(const std::vector<std::string>& pod_uids) const {
  const Worker& first = workers_.at(pod_uids.front());
  for (const std::string& pod_uid : pod_uids) {
    const control::AgentReady& ready = *workers_.at(pod_uid).ready;
    for (const char* program : kProgramsToMatch) {
      const auto mine = ready.versions.find(program);
      const auto theirs = first.ready->versions.find(program);
      if (mine == ready.versions.end() || theirs == first.ready->versions.end()) continue;
      if (mine->second != theirs->second) {
        return NameOf(pod_uid) + " has " + program + " " + mine->second + ", " +
               NameOf(first.hello.pod_uid) + " has " + theirs->second + ": use one image";
      }
    }
    const auto openmpi = ready.versions.find("openmpi");
    if (openmpi != ready.versions.end() && !openmpi->second.empty() &&
        openmpi->second.find(openmpi_version_) == std::string::npos) {
      return NameOf(pod_uid) + " has Open MPI " + openmpi->second + ", the launcher has " +
             openmpi_version_ + ": use one image";
    }
  }
  return "";
}

// As far as MixedText() looks.
bool Membership::SameBuild(const std::string& pod_uid, const std::string& other) const {
  const auto& mine = workers_.at(pod_uid).ready->versions;
  const auto& theirs = workers_.at(other).ready->versions;
  return std::all_of(kProgramsToMatch.begin(), kProgramsToMatch.end(), [&](const char* program) {
    const auto one = mine.find(program);
    const auto two = theirs.find(program);
    return one == mine.end() || two == theirs.end() ? (one == mine.end()) == (two == theirs.end())
                                                    : one->second == two->second;
  });
}

// What is wrong with the set of attached processes.
std::string Membership::GateText() const {
  const StartGate::Fault& fault = *gate_.fault();
  switch (fault.kind) {
    case StartGate::Fault::Kind::kAttachedTwice:
      return "two processes attached to " + SlotText(fault.slot);
    case StartGate::Fault::Kind::kNotExpected:
      return "a process attached to " + SlotText(fault.slot) + ", which is not in this world";
    case StartGate::Fault::Kind::kOtherWorldSize:
      return "mpirun's world has " + std::to_string(fault.world_size) + " ranks";
    case StartGate::Fault::Kind::kSameRank:
      return "two processes have the same rank of mpirun";
  }
  return "";
}

// While the gate is shut.
void Membership::JudgeMpirun(Time now) {
  if (mismatch_at_ && now - *mismatch_at_ >= options_.settle) {
    return Fail(now, control::kReasonWorldMismatch, GateText() + "; " + MismatchText(), 1);
  }
  if (gate_.Complete()) return;  // ranks load: mpirun has done its part
  if (!mpirun_exit_) {
    if (now - attached_at_ < options_.attach_within) return;
    return Fail(now, control::kReasonMpirunFailed,
                "mpirun did not start every process in time; " + MismatchText(), 1);
  }
  const MpirunExit& exit = *mpirun_exit_;
  if (!exit.start_error.empty()) {
    return Fail(now, control::kReasonMpirunFailed,
                "mpirun could not be started: " + exit.start_error, 1);
  }
  if (now - mpirun_exited_at_ < options_.settle ||
      !EveryMemberHeardSince(mpirun_exited_at_ + options_.settle / 2)) {
    return;
  }
  const bool elsewhere =
      exit.exit_code == control::kExitNoAgent ||
      std::any_of(exit.last_lines.begin(), exit.last_lines.end(), [](const std::string& line) {
        return line.find(control::kNoAgentText) != std::string::npos;
      });
  if (elsewhere) {
    return Fail(now, control::kReasonWorldMismatch,
                "mpirun started processes on a host that is no worker of this world; " +
                    MismatchText() + "; it did not use the hostfile",
                1);
  }
  const std::string how = exit.signal > 0 ? "was killed by signal " + std::to_string(exit.signal)
                                          : "ended with code " + std::to_string(exit.exit_code);
  // One ssh that was refused or too slow ends all of mpirun; the agents are well, so it is worth
  // another try.
  if (++failed_starts_ < options_.start_attempts) {
    return Stop(
        now, "mpirun " + how + " before every process had attached; " + Printed(exit.last_lines));
  }
  RankExit lines;
  lines.last_lines = exit.last_lines;
  lines.exit_code = exit.exit_code;
  lines.signal = exit.signal;
  Fail(now, control::kReasonMpirunFailed,
       "mpirun " + how + " before every process had attached; " + MismatchText() + "; " +
           Printed(exit.last_lines),
       exit.exit_code > 0 ? exit.exit_code : 1, lines);
}

// A rank of our own trainer that ended while it loaded, before the first world: what the user has
// to see, unless it was a signal.
void Membership::JudgeEarlyExits(Time now) {
  if (!options_.managed) return;
  for (const control::Member& member : members_) {
    Worker& worker = workers_.at(member.pod_uid);
    if (!worker.connection || !worker.repeated) continue;  // it may say that another one has loaded
    const Process& process = worker.processes[member.slot];
    if (!process.loaded.empty() || !process.exit || process.replaced) continue;
    const bool may_load_again =
        process.exit->Killed() ||
        (epochs_run_ > 0 && process.exit->exit_code != control::kExitUserError);
    const bool too_late = gate_.Complete() && now - std::max(started_at_, process.ended_at) >=
                                                  options_.load_again_within;
    if (may_load_again && !too_late) continue;
    const bool listed = std::any_of(failing_.begin(), failing_.end(), [&](const RankExit& exit) {
      return exit.pod_uid == member.pod_uid && exit.slot == member.slot;
    });
    if (listed) continue;
    if (!first_failure_at_) first_failure_at_ = now;
    failing_.push_back(*process.exit);
    failing_.back().rank = member.rank;
    must_fail_ = true;
  }
  JudgeFailures(now);
}

// Our own trainer: blames once what belongs to the same event has arrived, and forgets what cost
// the job nothing.
void Membership::JudgeFailures(Time now) {
  if (!first_failure_at_) return;
  const auto first = std::min_element(
      failing_.begin(), failing_.end(),
      [this](const RankExit& a, const RankExit& b) { return Suspicion(a) < Suspicion(b); });
  const auto settle =
      MustFail() && Suspicion(*first) < kOfVictims ? options_.settle : options_.peer_lost_settle;
  if (now - *first_failure_at_ < settle) return;
  if (MustFail()) return FailBy(now, RankExit(*first));
  failing_.clear();
  first_failure_at_.reset();
}

// A member of our own trainer's world that is past its last step and ended with code 0.
bool Membership::EndedWell(const control::Member& member) const {
  const auto exit = exits_.find({member.pod_uid, member.slot});
  return exit != exits_.end() && exit->second.exit.Clean() && done_.contains(member.rank);
}

bool Membership::AllEndedWell() const {
  return std::all_of(members_.begin(), members_.end(),
                     [&](const auto& member) { return EndedWell(member); });
}

// A program that is not our trainer, while the gate is open.
void Membership::JudgeExits(Time now) {
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
  if (clean == WorldSize()) {
    released_at_ = now;
    return FinishIfReleased(now);
  }
  if (failures.empty()) {
    // A program of the user's own lives under mpirun and goes with it.
    if (!mpirun_exit_ || now - mpirun_exited_at_ < options_.peer_lost_settle ||
        !EveryMemberHeardSince(mpirun_exited_at_ + options_.settle)) {
      return;
    }
    return Fail(now, control::kReasonMpirunFailed,
                "mpirun ended while the program ran; " + Printed(mpirun_exit_->last_lines),
                mpirun_exit_->exit_code > 0 ? mpirun_exit_->exit_code : 1);
  }
  if (!first_failure_at_) first_failure_at_ = now;
  const ReportedExit& first = **std::min_element(
      failures.begin(), failures.end(), [this](const ReportedExit* a, const ReportedExit* b) {
        return std::pair(Suspicion(a->exit), a->arrival) <
               std::pair(Suspicion(b->exit), b->arrival);
      });
  const auto wait =
      Suspicion(first.exit) >= kOfVictims ? options_.peer_lost_settle : options_.settle;
  if (now - *first_failure_at_ < wait || !EveryMemberHeardSince(*first_failure_at_ + wait / 2)) {
    return;
  }
  FailBy(now, first.exit);
}

void Membership::FailBy(Time now, const RankExit& exit) {
  const bool user_error = exit.exit_code == control::kExitUserError;
  const bool at_once = FailsAtOnce(exit);
  const bool crash_loop = options_.managed && !at_once && crashes_.Reached();
  const char* reason = control::kReasonRankFailed;
  if (user_error) {
    reason = control::kReasonUserError;
  } else if (!at_once && (exit.out_of_memory || (crash_loop && crashes_.OutOfMemory()))) {
    reason = control::kReasonOOMKilled;
  } else if (crash_loop) {
    reason = control::kReasonCrashLoop;
  }
  std::string text = RankText(exit) + " " + HowItEnded(exit) + "; " + Printed(exit.last_lines);
  if (options_.managed && at_once && !user_error) {
    text += "; runPolicy.restart.failOnExitCodes names this code";
  } else if (crash_loop) {
    text += "; ranks were killed or did not load " + std::to_string(crashes_.count()) +
            " times in a row without a further step, the limit (runPolicy.restart.crashLimit)";
  } else if (options_.managed && !user_error && restarts_.counted() > 0) {
    text += "; " + std::to_string(restarts_.counted()) + " ranks had ended before it, the limit";
  }
  Fail(now, reason, text, ExitCodeFor(exit), exit);
}

bool Membership::EveryMemberHeardSince(Time since) const {
  return std::all_of(member_pods_.begin(), member_pods_.end(), [&](const std::string& pod_uid) {
    const Worker& worker = workers_.at(pod_uid);
    return worker.connection && worker.last_heard > since;
  });
}

std::string Membership::MismatchText() const {
  constexpr std::size_t kShown = 600;
  std::string expected;
  for (const control::Member& member : members_) {
    if (expected.size() > kShown) {
      expected += ", ...";
      break;
    }
    expected += (expected.empty() ? "" : ", ") + SlotText({member.pod_uid, member.slot});
  }
  std::string got;
  for (const Slot& slot : gate_.AttachedSlots()) {
    if (got.size() > kShown) {
      got += ", ...";
      break;
    }
    got += (got.empty() ? "" : ", ") + SlotText(slot);
  }
  return "expected " + std::to_string(members_.size()) + " (" + expected + "), attached " +
         std::to_string(gate_.attached()) + (got.empty() ? "" : " (" + got + ")");
}

// A finished job cannot fail any more: what is still open is only waited for.
void Membership::FinishIfReleased(Time now) {
  const bool all_ended = static_cast<int>(exits_.size()) == WorldSize() && !mpirun_running_;
  if (all_ended || now - *released_at_ >= options_.release_within) Succeed(now);
}

void Membership::Succeed(Time now) {
  control::Verdict verdict;
  verdict.succeeded = true;
  verdict.message = "all " + std::to_string(WorldSize()) + " ranks completed";
  if (nothing_trained_) {
    verdict.reason = control::kReasonAlreadyComplete;
    verdict.message =
        "this job trained no step: the state that it began with had all its steps already";
  }
  End(now, verdict, 0);
}

void Membership::Fail(Time now, const std::string& reason, const std::string& message,
                      int exit_code, const std::optional<RankExit>& first) {
  control::Verdict verdict;
  verdict.reason = reason;
  verdict.message = message;
  verdict.first_failure = first;
  End(now, verdict, exit_code);
}

void Membership::End(Time now, const control::Verdict& verdict, int exit_code) {
  control::Verdict whole = verdict;
  whole.epoch = epoch_;
  whole.world_size = WorldSize();
  whole.progress = progress_;
  whole.checkpoint = safekeeping_.Newest(now);
  whole.beginning = safekeeping_.beginning();
  whole.clean_exits = static_cast<int>(std::count_if(
      exits_.begin(), exits_.end(), [](const auto& entry) { return entry.second.exit.Clean(); }));
  phase_ = LauncherPhase::kFinished;
  actions_.push_back(Record{whole});
  for (const auto& [connection, pod_uid] : connections_) {
    actions_.push_back(SendTo{connection, control::Shutdown{}});
  }
  if (mpirun_running_) actions_.push_back(StopMpirun{});
  actions_.push_back(launcher::Finish{std::move(whole), exit_code});
}

}  // namespace ringmaster::launcher
