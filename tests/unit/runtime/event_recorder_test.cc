#include "operator/runtime/event_recorder.h"

#include <string>
#include <vector>

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

Event Scaled(int workers) {
  Event event = PodsCreated();
  event.note = "scaled to " + std::to_string(workers);
  return event;
}

class EventRecorderTest : public testing::Test {
 protected:
  EventRecorderTest() {
    http_.on_send = [](const http::Request&) -> Result<http::Response> {
      return http::Response{201, {}, "{}"};
    };
  }

  // Returns the notes of all events that were sent, in order.
  std::vector<std::string> Notes() const {
    std::vector<std::string> notes;
    for (const http::Request& request : http_.Sent()) {
      notes.push_back(json::parse(request.body)["note"].get<std::string>());
    }
    return notes;
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

TEST_F(EventRecorderTest, DropsTheOldestOfTooManyAndWhatIsRefusedForGood) {
  for (int i = 1; i <= 5; ++i) recorder_.Record(Scaled(i));
  EXPECT_EQ(recorder_.dropped(), 2);

  http_.Answer(403, "{}");
  while (recorder_.SendOne()) {
  }

  EXPECT_EQ(recorder_.dropped(), 3);
  EXPECT_EQ(Notes(), (std::vector<std::string>{"scaled to 3", "scaled to 4", "scaled to 5"}));
  clock_.Advance(std::chrono::minutes(2));
  EXPECT_FALSE(recorder_.SendOne());
}

TEST_F(EventRecorderTest, TriesAgainWhatIsRefusedForAMoment) {
  recorder_.Record(Scaled(1));
  http_.Answer(503, "{}");
  http_.Answer(500, "{}");

  ASSERT_TRUE(recorder_.SendOne());
  EXPECT_FALSE(recorder_.SendOne()) << "not at once";
  clock_.Advance(std::chrono::milliseconds(1200));
  ASSERT_TRUE(recorder_.SendOne());
  clock_.Advance(std::chrono::milliseconds(1200));
  EXPECT_FALSE(recorder_.SendOne()) << "later each time";
  clock_.Advance(std::chrono::milliseconds(1200));
  ASSERT_TRUE(recorder_.SendOne());
  clock_.Advance(std::chrono::minutes(1));
  EXPECT_FALSE(recorder_.SendOne()) << "once is enough";

  EXPECT_EQ(recorder_.dropped(), 0);
  const std::vector<http::Request> sent = http_.Sent();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].body, sent[2].body) << "the same name and time, so that none is stored twice";
}

TEST_F(EventRecorderTest, LetsOthersPassWhatIsRefused) {
  recorder_.Record(Scaled(1));
  recorder_.Record(Scaled(2));
  http_.Answer(503, "{}");

  recorder_.SendOne();
  recorder_.SendOne();

  EXPECT_EQ(Notes(), (std::vector<std::string>{"scaled to 1", "scaled to 2"}));
  // When the queue is full, rejected events are dropped before events that were never sent.
  for (int i = 3; i <= 5; ++i) recorder_.Record(Scaled(i));
  EXPECT_EQ(recorder_.dropped(), 1);
  while (recorder_.SendOne()) {
  }
  EXPECT_EQ(Notes().size(), 5u);
}

TEST_F(EventRecorderTest, WaitsAsLongAsTheServerAsks) {
  recorder_.Record(Scaled(1));
  http_.on_send = [](const http::Request&) -> Result<http::Response> {
    return http::Response{429, {{"Retry-After", "20"}}, "slow down"};
  };
  recorder_.SendOne();
  recorder_.Record(Scaled(2));

  clock_.Advance(std::chrono::seconds(19));
  EXPECT_FALSE(recorder_.SendOne()) << "no other event either";
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_TRUE(recorder_.SendOne());
}

TEST_F(EventRecorderTest, GivesUpAfterTenMinutes) {
  recorder_.Record(Scaled(1));
  http_.on_send = [](const http::Request&) -> Result<http::Response> {
    return Error{ErrorKind::kUnavailable, "no route"};
  };
  for (int i = 0; i < 11; ++i) {
    recorder_.SendOne();
    clock_.Advance(std::chrono::seconds(73));
  }

  EXPECT_EQ(recorder_.dropped(), 1);
  EXPECT_FALSE(recorder_.SendOne());
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
