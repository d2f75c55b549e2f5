#include "operator/job/policy/leave_policy.h"

#include <algorithm>
#include <tuple>

namespace ringmaster::job {

namespace {

// Returns a value for how much the job needs a worker. Workers with the lowest values leave first.
int Worth(const PodView& pod, const control::WorkerReport* report) {
  if (pod.phase != PodPhase::kRunning) return 0;
  if (report == nullptr || !report->ready || report->fenced || !report->faults.empty()) return 1;
  return report->member ? 3 : 2;
}

}  // namespace

std::vector<PodPtr> ChooseLeavers(std::vector<PodPtr> candidates, const Reports& reports,
                                  std::size_t count) {
  const auto key = [&](const PodPtr& pod) {
    return std::tuple(Worth(*pod, reports.Find(pod->uid)), -reports.Slowness(pod->uid),
                      -pod->index);
  };
  std::ranges::sort(candidates, {}, key);
  candidates.resize(std::min(candidates.size(), count));
  return candidates;
}

Leave JudgeLeaver(const PodView& pod, const api::TrainingJob& job, const Reports& reports,
                  std::optional<Clock::Time> marked_since, Clock::Time now) {
  // In mode Restart, ranks do not hand over state, because all of them restart anyway.
  if (!job.spec.InPlace()) return Leave::kGo;
  const control::LauncherStatus* answer = reports.answer();
  const bool had_world = job.status.epoch > 0;
  const bool has_world = answer != nullptr && answer->epoch.number > 0 &&
                         answer->phase != control::LauncherPhase::kAdopting;
  if (answer == nullptr && !had_world) return Leave::kGo;
  // Until a new launcher has adopted the world, its reports do not show which workers are needed.
  if (answer != nullptr && (has_world || !had_world)) {
    const control::WorkerReport* report = reports.Find(pod.uid);
    if (report != nullptr && (report->drained || report->fenced)) return Leave::kGo;
    const bool needed = report != nullptr && (report->ready || report->member);
    if (reports.ExcludedByOrder(pod.uid) && !needed) return Leave::kGo;
  }
  if (DrainTimeLeft(marked_since, now).count() > 0) return Leave::kWait;
  const bool nothing_to_lose = !had_world && !has_world;
  // Do not delete a Pod whose ranks may be the last ones with the training state.
  return nothing_to_lose || reports.others_train() ? Leave::kOverdue : Leave::kHeld;
}

std::chrono::milliseconds DrainTimeLeft(std::optional<Clock::Time> marked_since, Clock::Time now) {
  const auto left = marked_since.value_or(now) + kDrainLimit - now;
  return std::max(std::chrono::milliseconds(0), std::chrono::ceil<std::chrono::milliseconds>(left));
}

}  // namespace ringmaster::job
