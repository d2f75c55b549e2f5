#include "operator/job/leave_policy.h"

#include <algorithm>
#include <tuple>

#include "operator/job/pods.h"

namespace ringmaster::job {

namespace {

// Higher is needed more.
int Worth(const PodView& pod, const control::WorkerReport* report) {
  if (pod.phase != PodPhase::kRunning) return 0;
  if (report == nullptr || !report->ready || report->lost || !report->faults.empty()) return 1;
  return report->member ? 3 : 2;
}

bool Ordered(const control::Order& order, const std::string& pod_uid) {
  return std::any_of(
      order.workers.begin(), order.workers.end(),
      [&](const control::DesiredWorker& worker) { return worker.pod_uid == pod_uid; });
}

}  // namespace

std::vector<PodPtr> ChooseLeavers(std::vector<PodPtr> candidates, const Reports& reports,
                                  std::size_t count) {
  const auto key = [&](const PodPtr& pod) {
    return std::tuple(Worth(*pod, reports.Find(pod->uid)), -pod->index);
  };
  std::sort(candidates.begin(), candidates.end(),
            [&](const PodPtr& a, const PodPtr& b) { return key(a) < key(b); });
  if (candidates.size() > count) candidates.resize(count);
  return candidates;
}

Leave JudgeLeaver(const PodView& pod, const PlanInput& input, const Reports& reports) {
  // Other programs cannot hand anything over: their world begins anew anyway.
  if (!LaunchSpecOf(input.job.spec).IsManagedTrainer()) return Leave::kGo;
  const control::LauncherStatus* answer = AnswerOf(input);
  if (answer == nullptr) {
    // A new launcher adopts the world as it is, and lets the leaver go in its own time.
    if (input.job.status.epoch == 0) return Leave::kGo;
  } else {
    const control::WorkerReport* report = reports.Find(pod.uid);
    if (report != nullptr && (report->drained || report->lost)) return Leave::kGo;
    const bool told = input.launcher->order != nullptr && !Ordered(*input.launcher->order, pod.uid);
    const bool needed = report != nullptr && (report->ready || report->member);
    if (told && !needed) return Leave::kGo;
  }
  return DrainTimeLeft(pod, input).count() > 0 ? Leave::kWait : Leave::kOverdue;
}

std::chrono::milliseconds DrainTimeLeft(const PodView& pod, const PlanInput& input) {
  const auto since = input.memory.leaving_since.find(pod.uid);
  if (since == input.memory.leaving_since.end()) return kDrainLimit;
  const auto left = since->second + kDrainLimit - input.now;
  return std::max(std::chrono::milliseconds(0), std::chrono::ceil<std::chrono::milliseconds>(left));
}

}  // namespace ringmaster::job
