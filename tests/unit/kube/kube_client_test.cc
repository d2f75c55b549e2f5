#include "operator/kube/kube_client.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/kube/status_error.h"
#include "operator/kube/token_source.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_http_client.h"
#include "tests/unit/kube/temporary_file.h"

namespace ringmaster::kube {
namespace {

using http::Method;
using nlohmann::json;

class KubeClientTest : public testing::Test {
 protected:
  http::Request Last() const { return http_.Sent().back(); }
  json LastBody() const { return json::parse(Last().body); }

  http::FakeHttpClient http_;
  KubeClient client_{http_, nullptr};
};

TEST_F(KubeClientTest, CreatesStrictlyAndReturnsTheStoredObject) {
  http_.Answer(201, R"({"metadata":{"name":"w","resourceVersion":"7"}})");

  const auto created = client_.Create(kPods, "team-a", {{"metadata", {{"name", "w"}}}});

  ASSERT_TRUE(created.ok());
  EXPECT_EQ((*created)["metadata"]["resourceVersion"], "7");
  EXPECT_EQ(Last().method, Method::kPost);
  EXPECT_EQ(
      Last().path,
      "/api/v1/namespaces/team-a/pods?fieldManager=ringmaster-operator&fieldValidation=Strict");
  EXPECT_EQ(Last().content_type, "application/json");
  EXPECT_EQ(Last().headers.at("Accept"), "application/json");
  EXPECT_GT(Last().deadline.count(), 0);
}

TEST_F(KubeClientTest, TriesWithoutStoring) {
  http_.Answer(201, "{}");
  http_.Answer(422, R"({"kind":"Status","reason":"Invalid","message":"spec.x"})");

  EXPECT_TRUE(client_.TryCreate(kPods, "team-a", {{"metadata", {{"name", "w"}}}}).ok());
  const auto refused = client_.TryCreate(kPods, "team-a", {{"metadata", {{"name", "w"}}}});

  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(Last().method, Method::kPost);
  EXPECT_EQ(Last().path,
            "/api/v1/namespaces/team-a/pods?fieldManager=ringmaster-operator&fieldValidation=Strict"
            "&dryRun=All");
}

TEST_F(KubeClientTest, NamesWhatFailed) {
  http_.Answer(403, R"({"kind":"Status","reason":"Forbidden","message":"exceeded quota: q"})");

  const auto created = client_.Create(kPods, "team-a", {{"metadata", {{"name", "w"}}}});

  ASSERT_FALSE(created.ok());
  EXPECT_TRUE(IsQuotaRefusal(created.error()));
  EXPECT_EQ(created.error().message, "while creating pods team-a/w: HTTP 403: exceeded quota: q");
}

TEST_F(KubeClientTest, OnlyAnAnswerIsATimeout) {
  http_.Answer(504, R"({"kind":"Status","reason":"Timeout","message":"too slow"})");
  http_.Fail({ErrorKind::kTimeout, "deadline exceeded"});

  EXPECT_EQ(client_.Get(kPods, "team-a", "w").error().kind, ErrorKind::kTimeout);
  const Error unanswered = client_.Get(kPods, "team-a", "w").error();

  EXPECT_EQ(unanswered.kind, ErrorKind::kUnavailable);
  EXPECT_EQ(unanswered.message, "while getting pods team-a/w: deadline exceeded");
}

TEST_F(KubeClientTest, AppliesAndPatchesWithTheRightContentTypes) {
  http_.on_send = [](const http::Request&) -> Result<http::Response> {
    return http::Response{200, {}, "{}"};
  };

  ASSERT_TRUE(
      client_.ServerSideApply(kServices, {{"metadata", {{"name", "s"}, {"namespace", "n"}}}}).ok());
  const http::Request apply = Last();
  ASSERT_TRUE(client_.PatchStatus(kTrainingJobs, "n", "j", {{"status", {{"epoch", 1}}}}).ok());
  const http::Request status = Last();

  EXPECT_EQ(apply.method, Method::kPatch);
  EXPECT_EQ(apply.content_type, "application/apply-patch+yaml");
  EXPECT_EQ(apply.path,
            "/api/v1/namespaces/n/services/"
            "s?fieldManager=ringmaster-operator&fieldValidation=Strict&force=true");
  EXPECT_EQ(status.content_type, "application/merge-patch+json");
  EXPECT_TRUE(
      status.path.starts_with("/apis/ringmaster.dev/v1alpha1/namespaces/n/trainingjobs/j/status?"));
}

TEST_F(KubeClientTest, DeletesWithPreconditionsInTheBackgroundOrInTheForeground) {
  http_.Answer(200, R"({"metadata":{"resourceVersion":"9"}})");
  http_.Answer(200, R"({"kind":"Status","status":"Success"})");

  const auto marked = client_.Delete(kPods, "n", "w", {.uid = "u", .resource_version = "8"});
  const json body = LastBody();
  const auto gone = client_.Delete(kPods, "n", "w", {}, Propagation::kForeground);

  ASSERT_TRUE(marked.ok());
  EXPECT_EQ(*marked, "9");
  EXPECT_EQ(body["preconditions"], (json{{"uid", "u"}, {"resourceVersion", "8"}}));
  EXPECT_EQ(body["propagationPolicy"], "Background");
  ASSERT_TRUE(gone.ok());
  EXPECT_EQ(*gone, "");
  EXPECT_EQ(LastBody()["propagationPolicy"], "Foreground");
}

TEST_F(KubeClientTest, APageThatIsLongerThanItMayBeIsNotRead) {
  const std::string page = R"({"metadata": {"resourceVersion": "7"}, "items": [{"a": 1}]})";
  http_.AnswerStream({.chunks = {"", page.substr(0, 20), page.substr(20)}});
  http_.AnswerStream({.chunks = {"", page, std::string(1000, ' ')}});
  http_.AnswerStream({.status = 403, .body = R"({"kind": "Status", "message": "no"})"});

  const auto whole = client_.List(kEvents, "a", {.max_bytes = 100});
  const auto too_long = client_.List(kEvents, "a", {.max_bytes = 100});
  const auto refused = client_.List(kEvents, "a", {.max_bytes = 100});

  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(whole->items.size(), 1U);
  EXPECT_EQ(too_long.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(refused.error().kind, ErrorKind::kForbidden);
}

TEST_F(KubeClientTest, ListsPageByPage) {
  http_.Answer(200,
               R"({"metadata":{"resourceVersion":"5","continue":"abc+/="},"items":[{"a":1}]})");
  http_.Answer(200, R"({"metadata":{"resourceVersion":"5"},"items":null})");

  const auto first = client_.List(kPods, "", {.label_selector = "a/b=c"});
  const auto second = client_.List(kPods, "", {.continue_token = first->continue_token});

  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->items.size(), 1u);
  EXPECT_EQ(http_.Sent()[0].path, "/api/v1/pods?labelSelector=a%2Fb%3Dc&limit=500");
  EXPECT_EQ(http_.Sent()[1].path, "/api/v1/pods?limit=500&continue=abc%2B%2F%3D");
  EXPECT_EQ(second->continue_token, "");
}

TEST_F(KubeClientTest, WatchAsksForBookmarksAndHandsOnLines) {
  http_.AnswerStream({.chunks = {"{\"a\":1}\n{\"b\"", ":2}\n"}});
  std::vector<std::string> lines;

  const auto ended =
      client_.Watch(kPods, "", {.resource_version = "12", .timeout = std::chrono::seconds(30)},
                    [&](std::string_view line) {
                      lines.emplace_back(line);
                      return true;
                    },
                    {});

  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(lines, (std::vector<std::string>{"{\"a\":1}", "{\"b\":2}"}));
  EXPECT_EQ(
      Last().path,
      "/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=12&timeoutSeconds=30");
}

TEST_F(KubeClientTest, WatchReturnsTheServersRefusal) {
  http_.AnswerStream(
      {.status = 410, .body = R"({"kind":"Status","reason":"Expired","message":"too old"})"});

  const auto ended = client_.Watch(kPods, "", {}, [](std::string_view) { return true; }, {});

  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().kind, ErrorKind::kExpired);
}

TEST_F(KubeClientTest, AsksOnceMoreWithAFreshTokenAfter401) {
  FakeClock clock;
  TemporaryFolder folder;
  TokenSource tokens(clock, "", folder.Write("token", "old"));
  KubeClient client(http_, &tokens);
  tokens.Token();
  folder.Write("token", "new");
  http_.Answer(401, "{}");
  http_.Answer(200, "{}");
  http_.Answer(401, "{}");
  http_.Answer(401, "{}");

  const auto good = client.Get(kPods, "n", "w");
  const auto refused = client.Get(kPods, "n", "w");

  EXPECT_TRUE(good.ok());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnauthorized);
  ASSERT_EQ(http_.Sent().size(), 4u);
  EXPECT_EQ(http_.Sent()[0].headers.at("Authorization"), "Bearer old");
  EXPECT_EQ(http_.Sent()[1].headers.at("Authorization"), "Bearer new");
}

TEST_F(KubeClientTest, RefusesAnswersThatAreNoJson) {
  http_.Answer(200, "<html>");

  const auto got = client_.Get(kPods, "n", "w");

  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().kind, ErrorKind::kInvalid);
}

}  // namespace
}  // namespace ringmaster::kube
