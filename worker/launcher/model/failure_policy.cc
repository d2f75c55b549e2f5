#include "worker/launcher/model/failure_policy.h"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <tuple>
#include <utility>

#include "common/base/count_text.h"
#include "common/control/exit_codes.h"
#include "common/control/exit_text.h"
#include "common/control/reasons.h"

namespace ringmaster::launcher {
namespace {

using control::HowItEnded;
using control::RankExit;

constexpr int kVictims = 3;  // lowest BlameRank() of exits that other failures may have caused
constexpr std::size_t kMaxRecorded = 16;
constexpr std::size_t kMaxRecordedLines = 3;

// Returns whether the line contains text, not only a rule or a frame.
bool HasText(const std::string& line) {
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

// Returns the last line that contains text. If that line is between two rules, as in mpirun's
// messages, returns all text between them, because the last line rarely names the problem.
std::string LastWords(const std::vector<std::string>& lines) {
  std::string words;
  bool framed = false;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (HasText(*line)) {
      words = words.empty() ? Trimmed(*line) : Trimmed(*line) + ' ' + words;
      if (!framed) return words;
    } else if (line->starts_with("-----")) {
      if (!words.empty()) return words;
      framed = true;
    }
  }
  return words;
}

int ExitCodeFor(const RankExit& exit) {
  if (exit.signal > 0) return 128 + exit.signal;
  return std::max(1, exit.exit_code);
}

}  // namespace

std::string PrintedText(const std::vector<std::string>& lines) {
  const std::string last = LastWords(lines);
  return last.empty() ? "it printed no output" : "last output: " + last;
}

FailurePolicy::FailurePolicy(const CoordinatorOptions& options)
    : exit_codes_(options.exit_codes),
      settle_(options.settle),
      peer_lost_settle_(options.peer_lost_settle),
      restarts_(options.restart_limit, options.restart_window),
      crashes_(options.crash_limit) {}

void FailurePolicy::Reset() {
  failing_.clear();
  first_failure_at_.reset();
  must_fail_ = false;
}

void FailurePolicy::Fail(Time now, const RankExit& exit) {
  Record(exit);
  if (!first_failure_at_) first_failure_at_ = now;
  failing_.push_back(exit);
  if (FailsAtOnce(exit) || (Counts(exit) && !restarts_.Count(now))) must_fail_ = true;
}

void FailurePolicy::FailStart(Time now, const RankExit& exit) {
  Record(exit);
  if (!first_failure_at_) first_failure_at_ = now;
  failing_.push_back(exit);
  must_fail_ = true;
}

bool FailurePolicy::Lists(const std::string& pod_uid, int slot) const {
  return std::any_of(failing_.begin(), failing_.end(), [&](const RankExit& exit) {
    return exit.pod_uid == pod_uid && exit.slot == slot;
  });
}

void FailurePolicy::Record(RankExit exit) {
  std::erase_if(recorded_, [&](const RankExit& known) {
    return !exit.start.empty() && known.pod_uid == exit.pod_uid && known.slot == exit.slot &&
           known.start == exit.start;
  });
  std::vector<std::string>& lines = exit.last_lines;
  if (lines.size() > kMaxRecordedLines) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kMaxRecordedLines));
  }
  // Only the newest stack is kept, because the size of the status is limited.
  for (RankExit& earlier : recorded_) {
    if (!exit.stack.empty()) earlier.stack.clear();
  }
  recorded_.push_back(std::move(exit));
  if (recorded_.size() > kMaxRecorded) recorded_.pop_front();
}

void FailurePolicy::Crash(Time now, Time since, const RankExit& exit, std::string text) {
  newest_crash_ = std::move(text);
  crashes_.Count(now, since, exit.out_of_memory.has_value());
}

std::optional<RankExit> FailurePolicy::Judge(Time now) {
  if (!first_failure_at_) return std::nullopt;
  const auto first = std::min_element(
      failing_.begin(), failing_.end(),
      [this](const RankExit& a, const RankExit& b) { return BlameRank(a) < BlameRank(b); });
  const auto settle = MustFail() && BlameRank(*first) < kVictims ? settle_ : peer_lost_settle_;
  if (now - *first_failure_at_ < settle) return std::nullopt;
  if (MustFail()) return *first;
  failing_.clear();
  first_failure_at_.reset();
  return std::nullopt;
}

std::optional<FailurePolicy::Blame> FailurePolicy::JudgeExits(
    Time now, const std::vector<const ReportedExit*>& failures) {
  if (!first_failure_at_) first_failure_at_ = now;
  const ReportedExit& first = **std::min_element(
      failures.begin(), failures.end(), [this](const ReportedExit* a, const ReportedExit* b) {
        return std::tuple(BlameRank(*a), !a->exit.Killed(), a->arrival) <
               std::tuple(BlameRank(*b), !b->exit.Killed(), b->arrival);
      });
  const auto wait = BlameRank(first) >= kVictims ? peer_lost_settle_ : settle_;
  if (now - *first_failure_at_ < wait) return std::nullopt;
  return Blame{first, *first_failure_at_ + wait / 2};
}

Failure FailurePolicy::FailureBy(const RankExit& exit, const std::string& whose) const {
  const bool user_error = exit.exit_code == control::kExitUserError;
  const bool at_once = FailsAtOnce(exit);
  const bool crash_loop = !at_once && crashes_.Reached();
  const char* reason = control::kReasonRankFailed;
  if (user_error) {
    reason = control::kReasonUserError;
  } else if (!at_once && (exit.out_of_memory || (crash_loop && crashes_.OutOfMemory()))) {
    reason = control::kReasonOOMKilled;
  } else if (crash_loop) {
    reason = control::kReasonCrashLoop;
  }
  std::string text = whose + " " + HowItEnded(exit) + "; " + PrintedText(exit.last_lines);
  if (at_once && !user_error) {
    text += "; runPolicy.restart.failOnExitCodes contains this code";
  } else if (crash_loop) {
    text += "; ranks failed " + TimesText(crashes_.count()) +
            " without a completed step, the limit (runPolicy.restart.crashLimit)";
  } else if (!user_error && must_fail_ && restarts_.counted() > 0) {
    text += "; " + CountText(restarts_.counted(), "rank") + " had ended before it, the limit";
  }
  return {reason, text, ExitCodeFor(exit), exit};
}

std::string FailurePolicy::CrashText() const {
  std::string text =
      newest_crash_ + "; ranks failed " + TimesText(crashes_.count()) + " without a completed step";
  if (crashes_.limit() <= 0) return text;
  text += crashes_.Reached() ? ", the limit"
                             : ", and the job fails at " + std::to_string(crashes_.limit());
  return text + " (runPolicy.restart.crashLimit)";
}

bool FailurePolicy::LoadsAgain(const RankExit& exit) const {
  return exit.exit_code != 0 && exit.exit_code != control::kExitUserError &&
         exit.exit_code != control::kExitCannotStart &&
         exit.exit_code != control::kExitDeviceUnhealthy &&
         !exit_codes_.ignored.contains(exit.exit_code);
}

bool FailurePolicy::Counts(const RankExit& exit) const {
  return !exit.Killed() && exit.exit_code != control::kExitDeviceUnhealthy &&
         !exit_codes_.ignored.contains(exit.exit_code);
}

bool FailurePolicy::FailsAtOnce(const RankExit& exit) const {
  return exit.signal == 0 &&
         (exit.exit_code == control::kExitUserError || exit_codes_.fail.contains(exit.exit_code));
}

// Blames a rank that was not started first, because all other ranks wait for it.
int FailurePolicy::BlameRank(const ReportedExit& end) const {
  return end.not_started ? -1 : BlameRank(end.exit);
}

// Causes are blamed before consequences, in this order: an error of the user, a lack of memory, a
// rank that failed by itself, a rank ended by SIGTERM, and a rank that only lost a peer.
int FailurePolicy::BlameRank(const RankExit& exit) const {
  if (FailsAtOnce(exit)) return 0;
  if (exit.out_of_memory) return 1;
  if (exit.exit_code == control::kExitPeerLost) return kVictims + 1;
  return exit.signal == SIGTERM ? kVictims : 2;
}

}  // namespace ringmaster::launcher
