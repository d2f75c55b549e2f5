#include "operator/job/policy/image_policy.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/model/foreign_times.h"
#include "operator/job/policy/start_advice.h"

namespace ringmaster::job {

namespace {

// Returns true if the registry or runtime reports that the image is missing or not accessible.
bool IsFinal(const ContainerView& container) {
  static constexpr std::array kWords{"not found",
                                     "manifest unknown",
                                     "does not exist",
                                     "no such host",
                                     "denied",
                                     "unauthorized",
                                     "forbidden",
                                     "authentication required",
                                     "no basic auth",
                                     "no match for platform",
                                     "not present with pull policy of never"};
  if (!IsImageWait(container.waiting_reason)) return false;
  std::string message = container.waiting_message;
  std::transform(message.begin(), message.end(), message.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](const char* word) { return message.find(word) != std::string::npos; });
}

// Returns the Pod that has waited longest for an image that cannot be pulled.
PodPtr LongestWithoutImage(const Observed& observed) {
  PodPtr longest;
  const auto look = [&](const PodPtr& pod) {
    if (pod == nullptr || pod->scheduled_at.empty() || !IsFinal(pod->container)) return;
    if (longest == nullptr || pod->scheduled_at < longest->scheduled_at) longest = pod;
  };
  look(observed.launcher);
  for (const PodPtr& worker : observed.live) look(worker);
  return longest;
}

}  // namespace

bool IsImageWait(const std::string& waiting_reason) {
  static constexpr std::array kReasons{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"};
  return std::find(kReasons.begin(), kReasons.end(), waiting_reason) != kReasons.end();
}

ClockCheck CheckImages(const api::TrainingJob& job, const Observed& observed, Clock::WallTime now) {
  if (job.status.has_trained || job.spec.run_policy.start_timeout) return {};
  const PodPtr pod = LongestWithoutImage(observed);
  return pod == nullptr ? ClockCheck{} : CheckClock(pod->scheduled_at, kImageTimeout, now);
}

Outcome ImageUnavailable(const Observed& observed, Clock::WallTime now) {
  const PodPtr pod = LongestWithoutImage(observed);
  const ContainerView& container = pod->container;
  return {.succeeded = false,
          .reason = api::kReasonStartTimeout,
          .message = pod->name + " on node " + pod->node + " " + WhyNotStarted(container) +
                     "; it was retried for " + std::to_string(kImageTimeout.count()) +
                     " minutes. Correct spec.image or the pull credentials "
                     "(spec.imagePullSecrets), then delete the job and apply it again; set "
                     "runPolicy.startTimeoutSeconds to wait longer",
          .verdict = std::nullopt,
          .failure = FailureOf(*pod, FormatTime(now))};
}

}  // namespace ringmaster::job
