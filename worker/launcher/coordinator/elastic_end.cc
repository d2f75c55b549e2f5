// Ends an elastic job: releases the ranks after the last step and waits for their processes,
// because scripts continue after training, for example to save the model.

#include <algorithm>
#include <vector>

#include "worker/launcher/coordinator/elastic_job.h"

namespace ringmaster::launcher {

using control::LauncherPhase;

void ElasticJob::On(Time now, Worker& worker, const control::RankDone& done) {
  if (KeptForLater(worker, done)) return;
  if (done.epoch != world_.epoch() || phase_ != LauncherPhase::kRunning || released_at_) return;
  if (!world_.RunsIn(worker.hello.pod_uid, done.rank)) return;
  NoteCommitted(CommittedStep());
  done_.insert(done.rank);
  if (done.rank == 0) nothing_trained_ = !done.trained;
  if (static_cast<int>(done_.size()) < world_.size()) return;
  if (AnyMemberLost()) return;  // the ranks report RankDone again in the next world
  Release(now);
  SendToPods(world_.pods(), control::Release{world_.epoch()});
}

// Returns whether a rank of this world is gone without having exited with code 0.
bool ElasticJob::AnyMemberLost() const {
  return std::any_of(world_.members().begin(), world_.members().end(), [&](const auto& member) {
    const auto exit = exits_.find({member.pod_uid, member.slot});
    return Gone(member) && (exit == exits_.end() || !exit->second.exit.Clean());
  });
}

// Returns whether the member completed its last step and ended with code 0.
bool ElasticJob::EndedWell(const control::Member& member) const {
  const auto exit = exits_.find({member.pod_uid, member.slot});
  return exit != exits_.end() && exit->second.exit.Clean() && done_.contains(member.rank);
}

bool ElasticJob::AllEndedWell() const {
  return std::all_of(world_.members().begin(), world_.members().end(),
                     [&](const auto& member) { return EndedWell(member); });
}

// What happened before the last step no longer counts.
void ElasticJob::Release(Time now) {
  released_at_ = now;
  failures_.Reset();
}

// A script that fails after training fails the job: no restart could repeat only this part of it.
void ElasticJob::AdvanceReleased(Time now) {
  std::vector<const ReportedExit*> failures;
  for (const auto& [slot, reported] : exits_) {
    if (reported.FailedByItself()) failures.push_back(&reported);
  }
  if (failures.empty()) return FinishIfReleased(now);
  const auto blame = failures_.JudgeExits(now, failures);
  if (!blame) return;
  const control::RankExit& exit = blame->end.exit;
  failures_.Record(exit);
  Failure failure = failures_.FailureBy(exit, RankText(exit));
  failure.message = EndOfTrainingText(now) + "; then " + failure.message;
  Fail(now, failure);
}

std::string ElasticJob::EndOfTrainingText(Time now) const {
  const int64_t step = CommittedStep();
  std::string text = "training ended";
  if (step > 0) text += " after step " + std::to_string(step);
  if (const auto newest = checkpoints_.Newest(now)) {
    text += ", and the checkpoint of step " + std::to_string(newest->step) + " is complete";
  }
  return text;
}

}  // namespace ringmaster::launcher
