#pragma once

// A job whose ranks do not use the rank protocol. The program starts and ends with mpirun, and
// every change of the world restarts it. A rank that is killed or exits with a code other than 0
// also restarts the program, within the limits, unless a lost worker may be the cause. Restarts
// after the first one are delayed. Owned by Coordinator.

#include <map>
#include <optional>
#include <string>

#include "worker/launcher/coordinator/job.h"
#include "worker/launcher/model/cooldown.h"

namespace ringmaster::launcher {

class DirectJob final : public Job {
 public:
  explicit DirectJob(const CoordinatorOptions& options) : Job(options) {}

  JobTimes Times(Time now) const override;

 private:
  using Job::On;

  bool HandleMessage(Time now, Worker& worker, const control::Message& message) override;
  void On(Time now, Worker& worker, const control::RankExited& exited);
  void On(Time now, Worker& worker, const control::RankPositions& report);
  void On(Time now, Worker& worker, const control::WorldReport& report);
  void Advance(Time now) override;
  void SucceedIfCompleted(Time now);
  void JudgeExits(Time now);
  void FailOrStartAgain(Time now, const ReportedExit& end);
  // `of`: the rank to report; nothing if no rank is to blame.
  void FailOrStartAgainAfterCrash(Time now, const char* cause, const std::string& text,
                                  int exit_code, const std::optional<control::RankExit>& of);
  void JudgeStall(Time now);
  void PauseBeforeNextStart(Time now);
  void ReformIfNeeded(Time now);
  void Welcome(Worker& worker) override;
  void NoteOpenGate(Time now) override;
  void NoteStop(Time now, const char* word, const Worker* worker) override;
  void NoteRestartByLauncher();
  std::string WorldText() const override;
  Time MayStartAt(Time now) const override { return failed_starts_.Until(now, {}, 0); }

  // The rank that has been silent for the longest time, and when its silence began.
  struct Silence {
    control::RankExit of;
    Time since{};
  };
  Silence LongestSilence() const;

  Time gate_opened_at_{};
  // The latest times at which ranks printed output or touched their heartbeat files.
  Time last_sign_{};                // for any rank
  std::map<int, Time> last_signs_;  // by rank
  Cooldown failed_starts_;          // records each end of the program
  // What agents report of the worlds of earlier launchers whose programs completed.
  std::map<std::string, control::Epoch> completed_;  // by Pod
  control::WorldReport newest_completed_;            // with its members
};

}  // namespace ringmaster::launcher
