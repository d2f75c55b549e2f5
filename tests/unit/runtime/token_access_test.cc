#include "operator/runtime/token_access.h"

#include <optional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_http_client.h"

namespace ringmaster::runtime {
namespace {

using nlohmann::json;
using std::chrono::seconds;

// An API server that knows the tokens "reader" and "other". Only "reader" may read metrics.
class TokenAccessTest : public testing::Test {
 protected:
  TokenAccessTest() {
    http_.on_send = [this](const http::Request& request) -> Result<http::Response> {
      if (!reachable_) return Error{ErrorKind::kUnavailable, "no route"};
      const json spec = json::parse(request.body)["spec"];
      json status;
      if (request.path.find("/tokenreviews") != std::string::npos) {
        const auto token = spec["token"].get<std::string>();
        status["authenticated"] = token == "reader" || token == "other";
        status["user"] = {{"username", token},
                          {"uid", "u"},
                          {"groups", {"system:authenticated"}},
                          {"extra", {{"pod", {"p"}}}}};
      } else {
        status["allowed"] = may_read_ && spec["user"] == "reader";
      }
      return http::Response{201, {}, json{{"status", status}}.dump()};
    };
  }

  // Returns the decision for a token, made at once or after the reviews of all waiting tokens.
  Access Judge(const std::string& token) {
    std::optional<Access> said;
    access_.Judge(token, [&](Access access) { said = access; });
    while (access_.JudgeOne()) {
    }
    EXPECT_TRUE(said.has_value()) << token;
    return said.value_or(Access::kUnknown);
  }
  std::size_t Requests() const { return http_.Sent().size(); }

  bool reachable_ = true;
  bool may_read_ = true;
  FakeClock clock_;
  http::FakeHttpClient http_;
  kube::KubeClient client_{http_, nullptr};
  TokenAccess access_{client_, clock_};
};

TEST_F(TokenAccessTest, AsksWhoseTheTokenIsAndWhetherTheyMayReadThePage) {
  EXPECT_EQ(Judge("reader"), Access::kAllowed);
  EXPECT_EQ(Judge("other"), Access::kForbidden);
  EXPECT_EQ(Judge("nobody"), Access::kUnauthenticated);

  const json review = json::parse(http_.Sent()[1].body)["spec"];
  EXPECT_EQ(review["nonResourceAttributes"], (json{{"path", "/metrics"}, {"verb", "get"}}));
  EXPECT_EQ(review["user"], "reader");
  EXPECT_EQ(review["uid"], "u");
  EXPECT_EQ(review["groups"], json::array({"system:authenticated"}));
  EXPECT_EQ(review["extra"], (json{{"pod", {"p"}}}));
}

TEST_F(TokenAccessTest, KeepsAVerdictForAMinuteAndARefusalForTenSeconds) {
  Judge("reader");
  Judge("other");
  const std::size_t asked = Requests();

  clock_.Advance(seconds(9));
  EXPECT_EQ(Judge("reader"), Access::kAllowed);
  EXPECT_EQ(Judge("other"), Access::kForbidden);
  EXPECT_EQ(Requests(), asked);

  clock_.Advance(seconds(1));
  Judge("other");
  EXPECT_EQ(Requests(), asked + 2);
  may_read_ = false;
  clock_.Advance(seconds(50));
  EXPECT_EQ(Judge("reader"), Access::kForbidden);
}

TEST_F(TokenAccessTest, MeasuresOnWhileTheServerIsAwayForWhoWasAllowed) {
  Judge("reader");
  reachable_ = false;

  clock_.Advance(seconds(599));
  EXPECT_EQ(Judge("reader"), Access::kAllowed);
  EXPECT_EQ(Judge("other"), Access::kUnknown);
  clock_.Advance(seconds(2));
  EXPECT_EQ(Judge("reader"), Access::kUnknown);
}

TEST_F(TokenAccessTest, ReviewsATokenOnceForAllWhoShowIt) {
  int allowed = 0;
  for (int i = 0; i < 5; ++i) {
    access_.Judge("reader", [&](Access access) { allowed += access == Access::kAllowed ? 1 : 0; });
  }

  EXPECT_TRUE(access_.JudgeOne());
  EXPECT_FALSE(access_.JudgeOne());

  EXPECT_EQ(allowed, 5);
  EXPECT_EQ(Requests(), 2u);
}

TEST_F(TokenAccessTest, StrangersCostTheServerTenReviewsASecondAndDelayNobody) {
  Judge("reader");
  clock_.Advance(seconds(61));
  int busy = 0;
  for (int i = 0; i < 1000; ++i) {
    access_.Judge("guess " + std::to_string(i),
                  [&](Access access) { busy += access == Access::kBusy ? 1 : 0; });
  }
  EXPECT_EQ(busy, 990);

  std::optional<Access> reader;
  access_.Judge("reader", [&](Access access) { reader = access; });
  access_.JudgeOne();
  EXPECT_EQ(reader, Access::kAllowed) << "before the strangers that came earlier";

  while (access_.JudgeOne()) {
  }
  EXPECT_EQ(Requests(), 2u + 2u + 10u);
}

TEST_F(TokenAccessTest, KeepsABoundedNumberOfVerdictsAndTheReadersLongest) {
  Judge("reader");
  for (int i = 0; i < 1000; ++i) {
    Judge("guess " + std::to_string(i));
    clock_.Advance(std::chrono::milliseconds(101));
    if (i % 500 == 0) Judge("reader");
  }
  reachable_ = false;

  EXPECT_EQ(Judge("reader"), Access::kAllowed);
  EXPECT_EQ(Judge("guess 999"), Access::kUnauthenticated) << "still kept";
}

TEST_F(TokenAccessTest, AnswersWhoWaitsWhenItStops) {
  std::optional<Access> said;
  access_.Judge("reader", [&](Access access) { said = access; });

  access_.Stop();

  EXPECT_EQ(said, Access::kUnknown);
  EXPECT_EQ(Judge("reader"), Access::kUnknown);
}

TEST_F(TokenAccessTest, JudgesOnItsOwnThread) {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Access> said;
  access_.Start();

  access_.Judge("reader", [&](Access access) {
    const std::lock_guard lock(mutex);
    said = access;
    changed.notify_all();
  });

  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, seconds(60), [&] { return said.has_value(); }));
  EXPECT_EQ(said, Access::kAllowed);
}

}  // namespace
}  // namespace ringmaster::runtime
