// Ends the job: waits for the ends of released ranks, and reports the verdict.

#include <algorithm>
#include <utility>

#include "common/base/count_text.h"
#include "common/control/reasons.h"
#include "worker/launcher/coordinator/job.h"

namespace ringmaster::launcher {

using control::LauncherPhase;
using control::RankExit;

void Job::FailBy(Time now, const RankExit& exit) {
  Fail(now, failures_.FailureBy(exit, RankText(exit)));
}

// Returns the Pods with a rank of the released world that may still run under a connected agent.
std::set<std::string> Job::PodsWithReleasedRanks() const {
  std::set<std::string> pod_uids;
  for (const control::Member& member : world_.members()) {
    const bool ended = exits_.contains({member.pod_uid, member.slot});
    if (!ended && workers_.At(member.pod_uid).connection) pod_uids.insert(member.pod_uid);
  }
  return pod_uids;
}

// A released job succeeds once its ranks and mpirun have ended. Ranks may run for as long as they
// need. Only mpirun, and ranks whose agents are not connected, have a limit.
void Job::FinishIfReleased(Time now) {
  if (!PodsWithReleasedRanks().empty()) return;
  Time since = *released_at_;
  for (const std::string& pod_uid : PodsLostAfterTraining()) {
    since = std::max(since, workers_.At(pod_uid).disconnected_at);
  }
  const bool all_ended =
      static_cast<int>(exits_.size()) == world_.size() && !startup_.mpirun_runs();
  if (all_ended || now - since >= options_.release_within) Succeed(now);
}

// Returns the Pods of the released world with a rank that is not known to have exited with code 0.
std::set<std::string> Job::PodsLostAfterTraining() const {
  std::set<std::string> pod_uids;
  for (const control::Member& member : world_.members()) {
    const auto exit = exits_.find({member.pod_uid, member.slot});
    if (exit == exits_.end() || !exit->second.exit.Clean()) pod_uids.insert(member.pod_uid);
  }
  return pod_uids;
}

void Job::Succeed(Time now) {
  control::Verdict verdict;
  verdict.succeeded = true;
  verdict.message = AllText(Ranks(), "rank") + " completed";
  if (nothing_trained_) {
    verdict.reason = control::kReasonAlreadyComplete;
    verdict.message =
        "the job had no steps to train: the state that it started from was already complete";
  }
  if (const std::set<std::string> lost = PodsLostAfterTraining(); !lost.empty()) {
    verdict.message += "; " + NamesOf(lost) +
                       (lost.size() == 1 ? " was lost before its ranks had ended"
                                         : " were lost before their ranks had ended");
  }
  End(now, verdict, 0);
}

void Job::Fail(Time now, const Failure& failure) {
  control::Verdict verdict;
  verdict.reason = failure.reason;
  verdict.message = failure.message;
  verdict.first_failure = failure.first;
  End(now, verdict, failure.exit_code);
}

void Job::End(Time now, const control::Verdict& verdict, int exit_code) {
  control::Verdict whole = verdict;
  whole.epoch = world_.epoch();
  whole.world_size = Ranks();
  whole.progress = progress_;
  whole.checkpoint = checkpoints_.Newest(now);
  whole.beginning = checkpoints_.beginning();
  whole.clean_exits = static_cast<int>(std::count_if(
      exits_.begin(), exits_.end(), [](const auto& entry) { return entry.second.exit.Clean(); }));
  phase_ = LauncherPhase::kFinished;
  actions_.push_back(Record{whole});
  for (const auto& [connection, pod_uid] : workers_.connections()) {
    actions_.push_back(SendTo{connection, control::Shutdown{}});
  }
  if (startup_.mpirun_runs()) actions_.push_back(StopMpirun{});
  actions_.push_back(launcher::Finish{std::move(whole), exit_code});
}

}  // namespace ringmaster::launcher
