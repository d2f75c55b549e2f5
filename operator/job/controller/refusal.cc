#include "operator/job/controller/refusal.h"

#include "common/base/backoff.h"
#include "operator/api/names.h"
#include "operator/kube/status_error.h"

namespace ringmaster::job {

namespace {

// What is not allowed is found anew by every reconcile.
constexpr std::chrono::minutes kJudgeAgain{1};

// Quotas free up and policies get changed by people: seconds at first, a minute for ever.
constexpr BackoffOptions kRetry{.initial = std::chrono::milliseconds(1000),
                                .limit = std::chrono::milliseconds(60'000),
                                .factor = 2.0,
                                .jitter = 0.0};

constexpr char kHowToPassPodSecurity[] =
    ". Remove what it names from the job's spec, or have the namespace's label "
    "pod-security.kubernetes.io/enforce set to privileged";

}  // namespace

bool IsTransient(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kForbidden:
    case ErrorKind::kInvalid:
    case ErrorKind::kNotFound:
      return false;
    default:
      return true;
  }
}

bool CertainlyNotCreated(const Error& error) {
  return !IsTransient(error) || error.kind == ErrorKind::kThrottled ||
         error.kind == ErrorKind::kUnauthorized;
}

Refusal MakeRefusal(const char* reason, std::string message, int failures, Clock::Time now) {
  return {.reason = reason,
          .message = std::move(message),
          .user_error = false,
          .failures = failures + 1,
          .retry_at = now + BackoffDelay(kRetry, failures + 1, 0)};
}

Refusal JudgedRefusal(const std::vector<Violation>& violations, Clock::Time now) {
  const Violation& first = violations.front();
  Refusal refusal =
      MakeRefusal(first.by_policy ? api::kReasonRefusedByProfile : api::kReasonInvalidSpec,
                  "no more Pods are made for this job: " + first.Text(), 0, now);
  refusal.retry_at = now + kJudgeAgain;
  return refusal;
}

bool IsJudged(const Refusal& refusal) {
  return refusal.reason == api::kReasonRefusedByProfile ||
         (refusal.reason == api::kReasonInvalidSpec && !refusal.user_error);
}

Refusal RefusalOf(const Error& error, bool of_pod, int failures, Clock::Time now) {
  const char* reason = api::kReasonApiError;
  bool user_error = false;
  if (kube::IsQuotaRefusal(error)) {
    reason = api::kReasonQuotaExceeded;
  } else if (error.message.find("violates PodSecurity") != std::string::npos) {
    reason = api::kReasonPodSecurity;
  } else if (error.kind == ErrorKind::kForbidden) {
    reason = api::kReasonForbidden;
  } else if (error.kind == ErrorKind::kInvalid && of_pod) {
    reason = api::kReasonInvalidSpec;
    user_error = true;
  }
  std::string message = error.message;
  if (reason == api::kReasonPodSecurity) message += kHowToPassPodSecurity;
  Refusal refusal = MakeRefusal(reason, std::move(message), failures, now);
  refusal.user_error = user_error;
  return refusal;
}

}  // namespace ringmaster::job
