#include "operator/runtime/event_recorder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_http_client.h"

namespace ringmaster::runtime {
namespace {

using nlohmann::json;

Event PodsCreated() {
  return {.regarding = {"ringmaster.dev/v1alpha1", "TrainingJob", "team-a", "digits", "u1"},
          .reason = "PodsCreated",
          .action = "Create",
          .note = "created 3 worker Pods"};
}

class EventRecorderTest : public testing::Test {
 protected:
  EventRecorderTest() {
    http_.on_send = [](const http::Request&) -> Result<http::Response> {
      return http::Response{201, {}, "{}"};
    };
  }

  FakeClock clock_;
  http::FakeHttpClient http_;
  kube::KubeClient client_{http_, nullptr};
  EventRecorder recorder_{client_, clock_, {.reporting_instance = "operator-0", .max_queued = 3}};
};

TEST_F(EventRecorderTest, SendsACompleteEvent) {
  recorder_.Record(PodsCreated());

  ASSERT_TRUE(recorder_.SendOne());
  EXPECT_FALSE(recorder_.SendOne());

  const http::Request sent = http_.Sent().back();
  const json body = json::parse(sent.body);
  EXPECT_TRUE(sent.path.starts_with("/apis/events.k8s.io/v1/namespaces/team-a/events?"));
  EXPECT_TRUE(body["metadata"]["name"].get<std::string>().starts_with("digits."));
  EXPECT_EQ(body["eventTime"], "2026-11-20T10:00:00.000000Z");
  EXPECT_EQ(body["type"], "Normal");
  EXPECT_EQ(body["reason"], "PodsCreated");
  EXPECT_EQ(body["action"], "Create");
  EXPECT_EQ(body["reportingController"], "ringmaster.dev/operator");
  EXPECT_EQ(body["reportingInstance"], "operator-0");
  EXPECT_EQ(body["regarding"]["uid"], "u1");
}

TEST_F(EventRecorderTest, CountsRepetitionsOnTheFirstEvent) {
  for (int i = 0; i < 3; ++i) {
    recorder_.Record(PodsCreated());
    recorder_.SendOne();
    clock_.Advance(std::chrono::seconds(10));
  }

  ASSERT_EQ(http_.Sent().size(), 3u);
  const http::Request last = http_.Sent().back();
  EXPECT_EQ(last.method, http::Method::kPatch);
  EXPECT_EQ(json::parse(last.body)["series"]["count"], 3);
  EXPECT_EQ(json::parse(last.body)["series"]["lastObservedTime"], "2026-11-20T10:00:20.000000Z");
}

TEST_F(EventRecorderTest, SendsANewEventWhenTheOldOneIsLongPastOrGone) {
  recorder_.Record(PodsCreated());
  recorder_.SendOne();
  clock_.Advance(std::chrono::minutes(7));
  recorder_.Record(PodsCreated());
  recorder_.SendOne();
  EXPECT_EQ(http_.Sent().back().method, http::Method::kPost);

  http_.Answer(404, "{}");
  recorder_.Record(PodsCreated());
  recorder_.SendOne();
  EXPECT_EQ(http_.Sent().back().method, http::Method::kPost);
}

TEST_F(EventRecorderTest, DropsWhatDoesNotFitAndWhatCannotBeSent) {
  for (int i = 0; i < 5; ++i) recorder_.Record(PodsCreated());
  EXPECT_EQ(recorder_.dropped(), 2);

  http_.Answer(403, "{}");
  recorder_.SendOne();

  EXPECT_EQ(recorder_.dropped(), 3);
}

TEST_F(EventRecorderTest, CutsLongNotesBetweenCharacters) {
  Event event = PodsCreated();
  event.note = std::string(1023, 'x') + "\xC3\xA9 and more";
  recorder_.Record(event);

  recorder_.SendOne();

  EXPECT_EQ(json::parse(http_.Sent().back().body)["note"], std::string(1023, 'x'));
}

TEST_F(EventRecorderTest, SendsOnItsOwnThread) {
  recorder_.Start();
  for (int i = 0; i < 3; ++i) recorder_.Record(PodsCreated());

  recorder_.Flush(std::chrono::seconds(60));

  EXPECT_EQ(http_.Sent().size(), 3u);
}

}  // namespace
}  // namespace ringmaster::runtime
