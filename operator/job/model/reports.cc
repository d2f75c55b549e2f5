#include "operator/job/model/reports.h"

#include <algorithm>

namespace ringmaster::job {

const LauncherView* PresentLauncher(const PlanInput& input) {
  const PodPtr& launcher = input.observed.launcher;
  if (launcher == nullptr || !input.launcher || input.launcher->pod_uid != launcher->uid) {
    return nullptr;
  }
  return &*input.launcher;
}

const control::LauncherStatus* AnswerOf(const PlanInput& input) {
  const LauncherView* launcher = PresentLauncher(input);
  return launcher != nullptr && launcher->status ? &*launcher->status : nullptr;
}

bool NotAskedYet(const PlanInput& input) {
  const PodPtr& launcher = input.observed.launcher;
  if (launcher == nullptr || launcher->deleting || launcher->Ended() || launcher->ip.empty()) {
    return false;
  }
  const auto& refusal = input.memory.refusal;
  if (refusal && refusal->cause == RefusalCause::kCredentialsUnavailable) return false;  // none can
  return PresentLauncher(input) == nullptr;
}

Reports::Reports(const PlanInput& input) : answer_(AnswerOf(input)) {
  if (answer_ == nullptr) return;
  answered_since_ = input.launcher->answered_since;
  current_ = !input.launcher->silent_since;
  by_uid_.reserve(answer_->workers.size());
  for (const control::WorkerReport& worker : answer_->workers) by_uid_[worker.pod_uid] = &worker;
  for (const control::Straggler& straggler : answer_->stragglers) {
    if (!(straggler.median_millis > 0)) continue;
    double& slowness = slowness_[straggler.pod_uid];
    slowness = std::max(slowness, straggler.step_millis / straggler.median_millis);
  }
  const auto& live = input.observed.live;
  const auto leaves = [](const PodPtr& pod) { return !pod->leaving.empty(); };
  if (std::ranges::none_of(live, leaves)) return;
  if (input.launcher->order != nullptr) {
    order_known_ = true;
    for (const auto& worker : input.launcher->order->workers) ordered_.insert(worker.pod_uid);
  }
  others_train_ = current_ && std::ranges::any_of(live, [&](const PodPtr& pod) {
                    const control::WorkerReport* report = Find(pod->uid);
                    return !leaves(pod) && report != nullptr && report->member && report->ready;
                  });
}

double Reports::Slowness(std::string_view pod_uid) const {
  const auto found = slowness_.find(pod_uid);
  return found == slowness_.end() ? 0 : found->second;
}

const control::WorkerReport* Reports::Find(std::string_view pod_uid) const {
  const auto found = by_uid_.find(pod_uid);
  return found == by_uid_.end() ? nullptr : found->second;
}

}  // namespace ringmaster::job
