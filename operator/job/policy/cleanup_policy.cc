#include "operator/job/policy/cleanup_policy.h"

#include <algorithm>

#include "operator/job/policy/deadline_policy.h"

namespace ringmaster::job {

namespace {

constexpr auto kSelfEndGrace = std::chrono::seconds(3);

bool Goes(const PodView& pod, api::CleanPodPolicy policy) {
  switch (policy) {
    case api::CleanPodPolicy::kNone:
      return !pod.Ended();
    case api::CleanPodPolicy::kStillRunning:
      return !pod.Stopped();
    case api::CleanPodPolicy::kAll:
      break;
  }
  return true;
}

}  // namespace

void PlanPodCleanUp(api::CleanPodPolicy policy, const Observed& observed,
                    std::optional<Clock::Time> ended_since, Clock::Time now, Plan& plan) {
  std::vector<PodPtr> pods = observed.PodsToDelete();
  std::erase_if(pods, [&](const PodPtr& pod) { return !Goes(*pod, policy); });
  if (pods.empty()) return;
  const auto waited = now - ended_since.value_or(now);
  if (waited < kSelfEndGrace) {
    return plan.RequeueWithin(std::chrono::ceil<std::chrono::milliseconds>(kSelfEndGrace - waited));
  }
  for (const PodPtr& pod : pods) plan.Delete(*pod);
}

void PlanEndOfLife(const api::TrainingJob& job, Clock::WallTime now, Plan& plan) {
  const ClockCheck life = CheckTimeToLive(job, now);
  plan.delete_job = life.expired;
  if (life.left) plan.RequeueWithin(*life.left);
}

}  // namespace ringmaster::job
