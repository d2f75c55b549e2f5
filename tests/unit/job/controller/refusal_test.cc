#include "operator/job/controller/refusal.h"

#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "operator/kube/status_error.h"

namespace ringmaster::job {
namespace {

constexpr Clock::Time kNow{std::chrono::hours(1)};

TEST(Refusal, NamesItsReason) {
  struct Row {
    Error error;
    bool of_pod;
    RefusalCause cause;
    const char* reason;
  };
  const Row table[] = {
      {{ErrorKind::kForbidden, "exceeded quota", kube::kReasonQuotaExceeded},
       true,
       RefusalCause::kQuotaExceeded,
       api::kReasonQuotaExceeded},
      {{ErrorKind::kForbidden, "violates PodSecurity \"restricted:latest\": x"},
       true,
       RefusalCause::kPodSecurity,
       api::kReasonPodSecurity},
      {{ErrorKind::kForbidden, "cannot create"},
       true,
       RefusalCause::kForbidden,
       api::kReasonForbidden},
      {{ErrorKind::kInvalid, "spec.containers[0].image: Required"},
       true,
       RefusalCause::kInvalidPod,
       api::kReasonInvalidSpec},
      {{ErrorKind::kInvalid, "admission webhook \"w\" denied the request: no label team"},
       true,
       RefusalCause::kForbidden,
       api::kReasonForbidden},
      {{ErrorKind::kInvalid, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: x"},
       true,
       RefusalCause::kForbidden,
       api::kReasonForbidden},
      {{ErrorKind::kUnavailable, "admission webhook \"w\" denied the request: it cannot tell"},
       true,
       RefusalCause::kForbidden,
       api::kReasonForbidden},
      {{ErrorKind::kThrottled, "admission webhook \"w\" denied the request: too many Pods"},
       true,
       RefusalCause::kForbidden,
       api::kReasonForbidden},
      {{ErrorKind::kInvalid, "x"}, false, RefusalCause::kOther, api::kReasonApiError},
      {{ErrorKind::kNotFound, "namespace"}, true, RefusalCause::kOther, api::kReasonApiError},
  };
  for (const Row& row : table) {
    ASSERT_FALSE(IsTransient(row.error)) << row.error.message;

    const Refusal refusal = RefusalOf(row.error, row.of_pod, 0, kNow);

    EXPECT_EQ(refusal.cause, row.cause) << row.error.message;
    EXPECT_STREQ(ReasonOf(refusal.cause), row.reason) << row.error.message;
    EXPECT_EQ(refusal.message.rfind(row.error.message, 0), 0U);
  }
}

TEST(Refusal, OfAJobThatNeverBeganNamesTheFirstFiveThingsThatNoProfileCouldAllow) {
  std::vector<Violation> violations = {
      {.path = "spec.f1", .message = "is refused", .by_policy = true}};
  const Refusal waits = JudgedRefusal(violations, false, kNow);
  EXPECT_FALSE(waits.stalled) << "a profile may come";
  EXPECT_EQ(waits.message, "no Pods are created for this job: spec.f1 is refused");
  for (int i = 2; i <= 5; ++i) violations.push_back({"spec.f" + std::to_string(i), "is refused"});

  const Refusal five = JudgedRefusal(violations, false, kNow);
  EXPECT_TRUE(five.stalled);
  EXPECT_EQ(five.cause, RefusalCause::kInvalidSpec);
  EXPECT_NE(five.message.find("spec.f5"), std::string::npos);
  EXPECT_EQ(five.message.find(" more"), std::string::npos) << five.message;
  violations.push_back({"spec.f6", "is refused"});
  violations.push_back({"spec.f7", "is refused"});
  const Refusal seven = JudgedRefusal(violations, false, kNow);
  EXPECT_EQ(seven.message.find("spec.f6"), std::string::npos);
  EXPECT_NE(seven.message.find("; and 2 more"), std::string::npos);

  const Refusal begun = JudgedRefusal(violations, true, kNow);
  EXPECT_FALSE(begun.stalled);
  EXPECT_EQ(begun.message, "no more Pods are created for this job: spec.f1 is refused");
  EXPECT_EQ(begun.cause, RefusalCause::kRefusedByProfile) << "by what it says first";
}

TEST(Refusal, ByPodSecurityNamesWhatToChange) {
  const Error error{ErrorKind::kForbidden,
                    "violates PodSecurity \"restricted:latest\": privileged"};

  const std::string message = RefusalOf(error, true, 0, kNow).message;

  EXPECT_NE(message.find("pod-security.kubernetes.io/enforce"), std::string::npos) << message;
  EXPECT_NE(message.find("Remove these fields"), std::string::npos) << message;
}

TEST(Refusal, BacksOffUpToAMinute) {
  const Error error{ErrorKind::kForbidden, "exceeded quota", kube::kReasonQuotaExceeded};

  EXPECT_EQ(RefusalOf(error, true, 0, kNow).retry_at, kNow + std::chrono::seconds(1));
  EXPECT_EQ(RefusalOf(error, true, 2, kNow).retry_at, kNow + std::chrono::seconds(4));
  EXPECT_EQ(RefusalOf(error, true, 50, kNow).retry_at, kNow + std::chrono::seconds(60));
}

TEST(Refusal, OnlySomeErrorsProveThatNothingWasCreated) {
  EXPECT_TRUE(CertainlyNotCreated({ErrorKind::kForbidden, ""}));
  EXPECT_TRUE(CertainlyNotCreated({ErrorKind::kThrottled, ""}));
  EXPECT_TRUE(CertainlyNotCreated({ErrorKind::kConflict, ""}));
  EXPECT_FALSE(CertainlyNotCreated({ErrorKind::kTimeout, ""}));
  EXPECT_FALSE(CertainlyNotCreated({ErrorKind::kUnavailable, ""}));
}

TEST(Refusal, OnlyAnswersOfTheServerMayLast) {
  EXPECT_TRUE(MayLast({ErrorKind::kThrottled, "HTTP 429: busy"}));
  EXPECT_TRUE(MayLast({ErrorKind::kConflict, "HTTP 409: the quota was changed"}));
  EXPECT_TRUE(MayLast({ErrorKind::kTimeout, "the server was too slow"}));
  EXPECT_FALSE(MayLast({ErrorKind::kUnavailable, "deadline exceeded"}));
  EXPECT_FALSE(MayLast({ErrorKind::kUnavailable, "HTTP 503: no API server"}));
}

}  // namespace
}  // namespace ringmaster::job
