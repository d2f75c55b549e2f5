#include "operator/job/controller/refusal.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "common/base/backoff.h"
#include "operator/kube/status_error.h"

namespace ringmaster::job {

namespace {

// The retry period after violations. Each reconcile also checks the spec again.
constexpr std::chrono::minutes kJudgeAgain{1};
constexpr std::size_t kMostViolationsShown = 5;

// Retry after a second at first and later every minute, because quotas and policies may change.
constexpr BackoffOptions kRetry{.initial = std::chrono::milliseconds(1000),
                                .limit = std::chrono::milliseconds(60'000),
                                .factor = 2.0,
                                .jitter = 0.0};

constexpr char kHowToPassPodSecurity[] =
    ". Remove these fields from the job's spec, name a profile that does not set them, or set the "
    "namespace's label pod-security.kubernetes.io/enforce to baseline, or to privileged if "
    "baseline rejects them too";

std::string ListOf(const std::vector<Violation>& violations) {
  std::string list;
  for (std::size_t i = 0; i < violations.size() && i < kMostViolationsShown; ++i) {
    list += (i == 0 ? "" : "; ") + violations[i].Text();
  }
  if (violations.size() > kMostViolationsShown) {
    list += "; and " + std::to_string(violations.size() - kMostViolationsShown) + " more";
  }
  return list;
}

}  // namespace

bool IsTransient(const Error& error) {
  if (IsFromPolicy(error)) return false;
  switch (error.kind) {
    case ErrorKind::kForbidden:
    case ErrorKind::kInvalid:
    case ErrorKind::kNotFound:
      return false;
    default:
      return true;
  }
}

bool IsOfBrokenWebhook(const Error& error) {
  return error.message.find("failed calling webhook") != std::string::npos;
}

bool IsFromPolicy(const Error& error) {
  return error.message.find(" denied the request") != std::string::npos ||
         error.message.find("ValidatingAdmissionPolicy '") != std::string::npos;
}

bool MayLast(const Error& error) {
  return error.kind == ErrorKind::kThrottled || error.kind == ErrorKind::kConflict ||
         error.kind == ErrorKind::kTimeout;
}

bool CertainlyNotCreated(const Error& error) {
  return !IsTransient(error) || IsOfBrokenWebhook(error) || error.kind == ErrorKind::kThrottled ||
         error.kind == ErrorKind::kConflict || error.kind == ErrorKind::kUnauthorized;
}

Refusal MakeRefusal(RefusalCause cause, std::string message, int failures, Clock::Time now) {
  return {.cause = cause,
          .message = std::move(message),
          .failures = failures + 1,
          .retry_at = now + BackoffDelay(kRetry, failures + 1, 0)};
}

Refusal JudgedRefusal(const std::vector<Violation>& violations, bool begun, Clock::Time now) {
  const bool waits_for_profile =
      std::all_of(violations.begin(), violations.end(),
                  [](const Violation& violation) { return violation.by_policy; });
  const bool stalled = !begun && !waits_for_profile;
  const bool by_profile = !stalled && violations.front().by_policy;
  Refusal refusal = MakeRefusal(
      by_profile ? RefusalCause::kRefusedByProfile : RefusalCause::kInvalidSpec,
      stalled
          ? "no Pods are created for this job until its spec is corrected: " + ListOf(violations)
          : std::string(begun ? "no more" : "no") +
                " Pods are created for this job: " + violations.front().Text(),
      0, now);
  refusal.stalled = stalled;
  refusal.retry_at = now + kJudgeAgain;
  return refusal;
}

bool IsJudged(const Refusal& refusal) {
  return refusal.cause == RefusalCause::kRefusedByProfile ||
         refusal.cause == RefusalCause::kInvalidSpec;
}

Refusal RefusalOf(const Error& error, bool of_pod, int failures, Clock::Time now) {
  RefusalCause cause = RefusalCause::kOther;
  if (kube::IsQuotaRefusal(error)) {
    cause = RefusalCause::kQuotaExceeded;
  } else if (error.message.find("violates PodSecurity") != std::string::npos) {
    cause = RefusalCause::kPodSecurity;
  } else if (error.kind == ErrorKind::kForbidden || IsFromPolicy(error)) {
    cause = RefusalCause::kForbidden;
  } else if (error.kind == ErrorKind::kInvalid && of_pod) {
    cause = RefusalCause::kInvalidPod;
  }
  std::string message = error.message;
  if (cause == RefusalCause::kPodSecurity) message += kHowToPassPodSecurity;
  return MakeRefusal(cause, std::move(message), failures, now);
}

}  // namespace ringmaster::job
