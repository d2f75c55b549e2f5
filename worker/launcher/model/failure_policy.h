#pragma once

// Decides when the exits of ranks fail the job, and which rank caused the failure. It waits for
// related events: if a worker disappears, the exit of another rank looks like a failure until the
// worker's silence is detected. A value; it does not depend on workers or worlds.

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/control/membership.h"
#include "worker/launcher/model/actions.h"
#include "worker/launcher/model/coordinator_options.h"
#include "worker/launcher/model/crash_limit.h"
#include "worker/launcher/model/restart_limit.h"

namespace ringmaster::launcher {

// Formats the last of these lines that is not empty: "it printed last: ...".
std::string PrintedText(const std::vector<std::string>& lines);

struct ReportedExit {
  control::RankExit exit;
  std::size_t arrival = 0;   // order of arrival among the reports of this epoch
  bool not_started = false;  // the host was temporarily unable to start the program
  bool leaving = false;      // the agent was leaving and may have ended the rank

  // Returns whether the rank failed, and neither its agent nor its Pod ended it. If an agent was
  // restarted, the ends of its ranks are not known.
  bool FailedByItself() const { return !exit.Clean() && !exit.start.empty() && !leaving; }
};

class FailurePolicy {
 public:
  using Time = Clock::Time;

  explicit FailurePolicy(const CoordinatorOptions& options);

  // Call for a new world that starts without a state; earlier failures do not count for it.
  void Reset();

  // Call when a rank ended while the job continues. Records the exit for the status and the limit.
  // A kill does not count towards the limit, but may have caused the exits of other ranks.
  void Fail(Time now, const control::RankExit& exit);
  // Call when a rank ended before the first world and a restart cannot help. The job fails.
  void FailStart(Time now, const control::RankExit& exit);
  bool Lists(const std::string& pod_uid, int slot) const;
  // Records an exit only for the status. After a takeover, an exit may be reported again.
  void Record(control::RankExit exit);
  // Call when a rank was killed or ended while loading. `text` describes the end. `since`: see
  // CrashLimit.
  void Crash(Time now, Time since, const control::RankExit& exit, std::string text);
  // See CrashLimit.
  void Committed(int64_t step) { crashes_.Committed(step); }
  void ForgetCrashes(Time before) { crashes_.Forget(before); }

  // Returns whether the job fails: after a fatal exit or several crashes without progress.
  bool MustFail() const { return must_fail_ || crashes_.Reached(); }
  // For an elastic job: returns the exit to blame once all reports of the event have arrived.
  // Then forgets harmless exits.
  std::optional<control::RankExit> Judge(Time now);

  struct Blame {
    ReportedExit end;
    Time reported_since{};  // blame the rank once all members have reported after this time
  };
  // For a direct job: returns which of these exits to blame. If a rank was killed, other ranks may
  // have exited with a code other than 0 because of it.
  // REQUIRES: `failures` is not empty, and no exit in it is clean.
  std::optional<Blame> JudgeExits(Time now, const std::vector<const ReportedExit*>& failures);

  // Returns the failure of the job that this exit caused. `whose` names the rank.
  Failure FailureBy(const control::RankExit& exit, const std::string& whose) const;

  // The newest exits, for the status.
  const std::deque<control::RankExit>& recorded() const { return recorded_; }
  int crashes() const { return crashes_.count(); }
  bool CrashLimitReached() const { return crashes_.Reached(); }
  // Describes the crashes, for users. REQUIRES: crashes() > 0.
  std::string CrashText() const;
  // Returns whether the agent starts a new process after this exit. The process may fail, too.
  bool LoadsAgain(const control::RankExit& exit) const;
  // Returns whether the exit counts towards the limit: the program may have caused it.
  bool Counts(const control::RankExit& exit) const;

 private:
  // Returns whether the exit fails the job at once because a restart cannot help.
  bool FailsAtOnce(const control::RankExit& exit) const;
  // Returns the order of blame: the exit with the lowest value is blamed.
  int BlameRank(const control::RankExit& exit) const;
  int BlameRank(const ReportedExit& end) const;

  ExitCodeRules exit_codes_;
  std::chrono::milliseconds settle_;
  std::chrono::milliseconds peer_lost_settle_;
  RestartLimit restarts_;
  CrashLimit crashes_;
  std::string newest_crash_;  // as text
  std::deque<control::RankExit> recorded_;
  std::vector<control::RankExit> failing_;  // recent exits that may be blamed
  std::optional<Time> first_failure_at_;
  bool must_fail_ = false;
};

}  // namespace ringmaster::launcher
