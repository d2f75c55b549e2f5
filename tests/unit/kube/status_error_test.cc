#include "operator/kube/status_error.h"

#include <gtest/gtest.h>

namespace ringmaster::kube {
namespace {

std::string Status(const std::string& reason, const std::string& message) {
  return R"({"kind":"Status","status":"Failure","reason":")" + reason + R"(","message":")" +
         message + R"("})";
}

TEST(StatusError, MapsCodesAndReasonsToKinds) {
  struct Case {
    int code;
    const char* reason;
    ErrorKind kind;
  };
  for (const Case& c :
       {Case{400, "BadRequest", ErrorKind::kInvalid},
        Case{401, "Unauthorized", ErrorKind::kUnauthorized},
        Case{403, "Forbidden", ErrorKind::kForbidden}, Case{404, "NotFound", ErrorKind::kNotFound},
        Case{409, "Conflict", ErrorKind::kConflict},
        Case{409, "AlreadyExists", ErrorKind::kAlreadyExists},
        Case{410, "Gone", ErrorKind::kExpired}, Case{410, "Expired", ErrorKind::kExpired},
        Case{422, "Invalid", ErrorKind::kInvalid},
        Case{429, "TooManyRequests", ErrorKind::kThrottled},
        Case{500, "InternalError", ErrorKind::kUnavailable},
        Case{503, "ServiceUnavailable", ErrorKind::kUnavailable},
        Case{504, "Timeout", ErrorKind::kTimeout}}) {
    EXPECT_EQ(ReadStatusError({c.code, {}, Status(c.reason, "m")}).kind, c.kind)
        << c.code << c.reason;
  }
}

TEST(StatusError, TellsQuotaFromMissingRights) {
  const Error quota = ReadStatusError({403,
                                       {},
                                       Status("Forbidden",
                                              "pods w-0 is forbidden: exceeded quota: q, "
                                              "requested: pods=1, used: pods=2, limited: pods=2")});
  const Error rights = ReadStatusError({403,
                                        {},
                                        Status("Forbidden",
                                               "pods is forbidden: User x cannot list resource "
                                               "pods in API group at the cluster scope")});
  const Error policy = ReadStatusError(
      {403, {}, Status("Forbidden", "pods w-0 is forbidden: violates PodSecurity restricted")});

  EXPECT_TRUE(IsQuotaRefusal(quota));
  EXPECT_FALSE(IsQuotaRefusal(rights));
  EXPECT_EQ(rights.reason, "");
  EXPECT_NE(rights.message.find("cannot list resource pods"), std::string::npos);
  EXPECT_EQ(policy.reason, "");
}

TEST(StatusError, AnOwnersKindThatIsNotKnownYetIsNoMissingRight) {
  const Error error = ReadStatusError(
      {403,
       {},
       Status("Forbidden",
              "pods w-0 is forbidden: cannot set blockOwnerDeletion in this case because cannot "
              "find RESTMapping for APIVersion ringmaster.dev/v1alpha1 Kind TrainingJob: no "
              "matches for kind TrainingJob in version ringmaster.dev/v1alpha1")});

  EXPECT_EQ(error.kind, ErrorKind::kThrottled);
  EXPECT_EQ(error.reason, "");
}

TEST(StatusError, ReadsRetryAfterFromHeaderOrBody) {
  const Error header = ReadStatusError({429, {{"Retry-After", "7"}}, "too many"});
  const Error body =
      ReadStatusError({429, {}, R"({"kind":"Status","details":{"retryAfterSeconds":3}})"});
  const Error nonsense = ReadStatusError({429, {{"Retry-After", "99999999999999999999"}}, ""});
  const Error negative = ReadStatusError({429, {{"Retry-After", "-5"}}, ""});

  EXPECT_EQ(header.retry_after, std::chrono::seconds(7));
  EXPECT_EQ(body.retry_after, std::chrono::seconds(3));
  EXPECT_EQ(nonsense.retry_after.count(), 0);
  EXPECT_EQ(negative.retry_after.count(), 0);
}

TEST(StatusError, IsToldToWaitHalfAMinuteAtMost) {
  const Error header = ReadStatusError({429, {{"Retry-After", "3600"}}, "too many"});
  const Error body =
      ReadStatusError({429, {}, R"({"kind":"Status","details":{"retryAfterSeconds":86400}})"});

  EXPECT_EQ(header.retry_after, std::chrono::seconds(30));
  EXPECT_EQ(body.retry_after, std::chrono::seconds(30));
}

TEST(StatusError, SurvivesBodiesThatAreNoStatus) {
  for (const char* body :
       {"", "<html>", "null", "[1]", R"({"kind":"Status","reason":5,"message":null})"}) {
    const Error error = ReadStatusError({502, {}, body});

    EXPECT_EQ(error.kind, ErrorKind::kUnavailable) << body;
    EXPECT_TRUE(error.message.starts_with("HTTP 502: ")) << error.message;
  }
  EXPECT_LT(ReadStatusError({500, {}, std::string(10'000, 'x')}).message.size(), 300u);
}

}  // namespace
}  // namespace ringmaster::kube
