#include "operator/runtime/reflector.h"

#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/runtime/store.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_http_client.h"

namespace ringmaster::runtime {
namespace {

using http::FakeStream;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct View {
  std::string version;
};

std::string Pod(const std::string& name, int version) {
  return R"({"metadata":{"name":")" + name + R"(","namespace":"n","uid":"u-)" + name +
         R"(","resourceVersion":")" + std::to_string(version) + R"("}})";
}

std::string EventLine(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}

std::string Bookmark(int version, bool end_of_list = false) {
  const std::string annotations =
      end_of_list ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "";
  return EventLine("BOOKMARK", R"({"metadata":{"resourceVersion":")" + std::to_string(version) +
                                   "\"" + annotations + "}}");
}

std::string StatusBody(int code, const std::string& reason, const std::string& message = "m") {
  return R"({"kind":"Status","code":)" + std::to_string(code) + R"(,"reason":")" + reason +
         R"(","message":")" + message + R"("})";
}

class ReflectorTest : public testing::Test {
 protected:
  ReflectorTest() {
    store_.OnChange([this](const kube::ObjectMeta& meta, Change change) {
      changes_.push_back(meta.name + (change == Change::kDeleted ? "-" : "+"));
    });
  }

  // Runs the reflector until it has sent the next request. Returns the delay before its next step.
  milliseconds Exchange() {
    const std::size_t before = http_.Sent().size();
    milliseconds delay{0};
    while (http_.Sent().size() == before) delay = reflector_.Step({});
    return delay;
  }

  // Fills the cache through WatchList with pods a and b. The stream then sends `more` and ends.
  void FillCache(const std::string& more = {}) {
    http_.AnswerStream(
        {.chunks = {EventLine("ADDED", Pod("a", 3)) + EventLine("ADDED", Pod("b", 4)),
                    Bookmark(10, true) + more}});
    EXPECT_EQ(Exchange(), milliseconds(0));
    changes_.clear();
  }

  std::string LastPath() const { return http_.Sent().back().path; }
  bool LastPathHas(const std::string& part) const {
    return LastPath().find(part) != std::string::npos;
  }

  FakeClock clock_;
  http::FakeHttpClient http_;
  kube::KubeClient client_{http_, nullptr};
  Store<View> store_{[](const nlohmann::json& object) -> Result<View> {
    return View{object["metadata"]["resourceVersion"].get<std::string>()};
  }};
  WatchListSupport watch_list_;
  struct Observer : ReflectorObserver {
    void OnEvent(const kube::Resource&) override {
      if (on_event) on_event();
    }
    std::function<void()> on_event;
  };
  Observer observer_;
  int recovered_ = 0;
  Reflector reflector_{
      client_,
      clock_,
      store_,
      watch_list_,
      {.resource = kube::kPods, .label_selector = "a=b", .on_recovered = [this] { ++recovered_; }},
      &observer_};
  std::vector<std::string> changes_;
};

TEST_F(ReflectorTest, FillsTheCacheFromAWatchListInOneStep) {
  http_.AnswerStream(
      {.chunks = {EventLine("ADDED", Pod("a", 3)), EventLine("ADDED", Pod("b", 4)),
                  EventLine("MODIFIED", Pod("a", 6)), EventLine("DELETED", Pod("b", 7)),
                  Bookmark(10, true), EventLine("ADDED", Pod("c", 11)), Bookmark(15)}});
  EXPECT_FALSE(reflector_.Synced());

  Exchange();

  EXPECT_TRUE(LastPathHas("sendInitialEvents=true&resourceVersionMatch=NotOlderThan"));
  EXPECT_TRUE(LastPathHas("labelSelector=a%3Db"));
  EXPECT_TRUE(reflector_.Synced());
  EXPECT_EQ(changes_, (std::vector<std::string>{"a+", "c+"}));
  EXPECT_EQ(store_.Get("n/a")->version, "6");
  EXPECT_EQ(store_.Get("n/b"), nullptr);
  EXPECT_EQ(store_.LastSeenVersion(), "15");
}

TEST_F(ReflectorTest, GoesOnFromTheLastVersionSeenWhenAWatchEnds) {
  FillCache(EventLine("MODIFIED", Pod("a", 12)) + Bookmark(20));
  http_.AnswerStream({.chunks = {EventLine("DELETED", Pod("b", 25))}});

  EXPECT_EQ(Exchange(), milliseconds(0));

  EXPECT_TRUE(LastPathHas("&resourceVersion=20&"));
  EXPECT_EQ(store_.Get("n/b"), nullptr);
  http_.AnswerStream({.error = Error{ErrorKind::kTimeout, "silent"}});
  EXPECT_GT(Exchange(), milliseconds(0));
  EXPECT_TRUE(LastPathHas("&resourceVersion=25&"));
  EXPECT_NE(reflector_.Problem().find("silent"), std::string::npos);
}

TEST_F(ReflectorTest, AsksForWatchesOfDifferentLengths) {
  FillCache();
  std::set<std::string> lengths;
  for (int i = 0; i < 20; ++i) {
    http_.AnswerStream({.chunks = {Bookmark(20 + i)}});
    Exchange();
    const std::string path = LastPath();
    lengths.insert(path.substr(path.find("timeoutSeconds=")));
    const int length = std::stoi(path.substr(path.find("timeoutSeconds=") + 15));
    EXPECT_GE(length, 300);
    EXPECT_LE(length, 600);
  }

  EXPECT_GT(lengths.size(), 5u);
}

TEST_F(ReflectorTest, ListsAgainWhenItsVersionExpiredAndReportsWhatVanished) {
  for (const bool as_event : {true, false}) {
    http_.ForgetSent();
    FillCache();
    if (as_event) {
      http_.AnswerStream({.chunks = {EventLine("ERROR", StatusBody(410, "Expired"))}});
    } else {
      http_.AnswerStream({.status = 410, .body = StatusBody(410, "Gone")});
    }
    http_.AnswerStream(
        {.chunks = {EventLine("ADDED", Pod("b", 4)), EventLine("ADDED", Pod("d", 30))},
         .error = Error{ErrorKind::kUnavailable, "cut"}});

    Exchange();
    EXPECT_EQ(store_.size(), 2u) << "the old content is served meanwhile";
    EXPECT_TRUE(reflector_.Synced());
    Exchange();  // the list is interrupted and discarded
    EXPECT_TRUE(LastPathHas("sendInitialEvents=true"));
    EXPECT_EQ(changes_, std::vector<std::string>{});
    http_.AnswerStream(
        {.chunks = {EventLine("ADDED", Pod("b", 4)) + EventLine("ADDED", Pod("d", 30)),
                    Bookmark(40, true)}});
    Exchange();

    EXPECT_EQ(changes_, (std::vector<std::string>{"a-", "d+"}));
    http_.AnswerStream({.status = 410, .body = StatusBody(410, "Gone")});
    Exchange();
  }
}

TEST_F(ReflectorTest, FallsBackToPagedListsOncePerProcess) {
  http_.AnswerStream(
      {.status = 422, .body = StatusBody(422, "Invalid", "sendInitialEvents is forbidden")});
  http_.Answer(200, R"({"metadata":{"resourceVersion":"9","continue":"next"},"items":[)" +
                        Pod("a", 3) + "]}");
  http_.Answer(200, R"({"metadata":{"resourceVersion":"9"},"items":[)" + Pod("b", 4) + "]}");

  Exchange();
  EXPECT_FALSE(watch_list_.usable);
  Exchange();
  EXPECT_FALSE(reflector_.Synced());
  EXPECT_EQ(store_.size(), 0u);
  Exchange();

  EXPECT_TRUE(LastPathHas("continue=next"));
  EXPECT_TRUE(reflector_.Synced());
  EXPECT_EQ(store_.size(), 2u);
  http_.AnswerStream({.chunks = {EventLine("DELETED", Pod("a", 11))}});
  Exchange();
  EXPECT_TRUE(LastPathHas("&resourceVersion=9&"));
  EXPECT_EQ(store_.size(), 1u);
}

Error PageTooLong() { return {ErrorKind::kInvalid, "too long", http::kTooLong}; }

TEST_F(ReflectorTest, APageThatIsTooLongIsAskedForInHalvesAtOnce) {
  watch_list_.usable = false;
  http_.Fail(PageTooLong());
  http_.Answer(200, R"({"metadata":{"resourceVersion":"9","continue":"next"},"items":[)" +
                        Pod("a", 3) + "]}");
  http_.Fail(PageTooLong());
  http_.Answer(200, R"({"metadata":{"resourceVersion":"9"},"items":[)" + Pod("b", 4) + "]}");
  std::vector<std::string> limits;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Exchange(), milliseconds(0));
    const std::string path = LastPath();
    limits.push_back(path.substr(path.find("limit=") + 6,
                                 path.find('&', path.find("limit=")) - path.find("limit=") - 6));
  }

  EXPECT_EQ(limits, (std::vector<std::string>{"500", "250", "250", "125"}));
  EXPECT_TRUE(LastPathHas("continue=next"));
  EXPECT_TRUE(reflector_.Synced());
  EXPECT_EQ(store_.size(), 2u);
}

TEST_F(ReflectorTest, AnObjectThatIsTooLongByItselfKeepsNobodyFromTheOthers) {
  watch_list_.usable = false;
  http_.on_send = [](const http::Request& request) -> Result<http::Response> {
    const bool metadata_only =
        request.headers.at("Accept").find("PartialObjectMetadataList") != std::string::npos;
    if (request.path.find("continue=after-huge") != std::string::npos) {
      return http::Response{
          200, {}, R"({"metadata":{"resourceVersion":"9"},"items":[)" + Pod("small", 4) + "]}"};
    }
    if (!metadata_only) return PageTooLong();
    return http::Response{
        200,
        {},
        R"({"metadata":{"resourceVersion":"9","continue":"after-huge"},"items":[)" +
            Pod("huge", 3) + "]}"};
  };
  for (int i = 0; i < 30 && !reflector_.Synced(); ++i) {
    EXPECT_EQ(reflector_.Step({}), milliseconds(0));
  }

  EXPECT_TRUE(reflector_.Synced());
  EXPECT_EQ(store_.size(), 1u);
  EXPECT_NE(store_.Get("n/small"), nullptr);
}

TEST_F(ReflectorTest, AnEventThatIsTooLongToBeReadIsPassedOverAndItsObjectServedNoLonger) {
  FillCache();
  std::string huge = EventLine("MODIFIED", Pod("a", 11));
  huge.insert(huge.rfind("}}"), R"(,"spec":")" + std::string(9 << 20, 'x') + "\"");
  http_.AnswerStream({.chunks = {huge, EventLine("MODIFIED", Pod("b", 12))}});

  EXPECT_EQ(Exchange(), milliseconds(0));

  EXPECT_EQ(changes_, (std::vector<std::string>{"a-", "b+"}));
  EXPECT_EQ(reflector_.Problem(), "");
}

TEST_F(ReflectorTest, StartsTheListAgainWhenAPageExpired) {
  watch_list_.usable = false;
  http_.Answer(200, R"({"metadata":{"resourceVersion":"9","continue":"next"},"items":[)" +
                        Pod("old", 3) + "]}");
  http_.Answer(410, StatusBody(410, "Expired"));
  http_.Answer(200, R"({"metadata":{"resourceVersion":"12"},"items":[)" + Pod("new", 11) + "]}");

  Exchange();
  Exchange();
  Exchange();

  EXPECT_FALSE(LastPathHas("continue"));
  EXPECT_EQ(changes_, std::vector<std::string>{"new+"});
}

TEST_F(ReflectorTest, NamesMissingRightsAndKeepsTryingSlowly) {
  const std::string message = "pods is forbidden: User op cannot watch resource pods";
  milliseconds delay{0};
  for (int i = 0; i < 8; ++i) {
    http_.AnswerStream({.status = 403, .body = StatusBody(403, "Forbidden", message)});
    delay = Exchange();
    // The first delay is short, because a server that is starting rejects requests only briefly.
    EXPECT_LE(delay, i == 0 ? milliseconds(1600) : seconds(10));
  }
  EXPECT_EQ(delay, seconds(10));

  EXPECT_FALSE(reflector_.Synced());
  EXPECT_NE(reflector_.Problem().find("cannot watch resource pods"), std::string::npos);
  EXPECT_TRUE(watch_list_.usable);
  FillCache();
  EXPECT_TRUE(reflector_.Synced());
  EXPECT_EQ(reflector_.Problem(), "");
}

TEST_F(ReflectorTest, HonoursRetryAfter) {
  FillCache();
  http_.AnswerStream({.status = 429, .body = "slow down", .headers = {{"Retry-After", "20"}}});

  EXPECT_EQ(Exchange(), seconds(20));
}

TEST_F(ReflectorTest, AsksAServerThatCannotBeReachedAgainSoonAndSaysWhenItIsBack) {
  FillCache();
  int times = 0;
  for (const FakeStream& failure :
       {FakeStream{.status = 0, .error = Error{ErrorKind::kUnavailable, "connection refused"}},
        FakeStream{.status = 0, .error = Error{ErrorKind::kTimeout, "silent"}},
        FakeStream{.status = 503, .body = StatusBody(503, "ServiceUnavailable")}}) {
    for (int i = 0; i < 4; ++i) {
      http_.AnswerStream(failure);
      const milliseconds delay = Exchange();
      EXPECT_GE(delay, milliseconds(100));
      EXPECT_LE(delay, times++ == 0 ? milliseconds(200) : seconds(4));
    }
  }
  EXPECT_NE(reflector_.Problem(), "");
  EXPECT_EQ(recovered_, 0);

  std::string problem = "not asked";
  http_.on_stream = [&](const http::Request&) {
    return FakeStream{.chunks = {Bookmark(11)}, .error = Error{ErrorKind::kUnavailable, "cut"}};
  };
  observer_.on_event = [&] { problem = reflector_.Problem(); };
  Exchange();
  EXPECT_EQ(problem, "") << "while the watch lasts";
  EXPECT_EQ(recovered_, 1);
}

TEST_F(ReflectorTest, ListsAgainSoonHoweverOftenVersionsExpire) {
  FillCache();
  for (int i = 0; i < 8; ++i) {
    http_.AnswerStream({.status = 410, .body = StatusBody(410, "Expired")});
    const milliseconds delay = Exchange();
    EXPECT_GE(delay, milliseconds(i == 0 ? 0 : 200));
    EXPECT_LE(delay, seconds(4));
  }
}

TEST_F(ReflectorTest, BacksOffWithAFactorUntilAWatchLastsASecond) {
  FillCache();
  std::vector<milliseconds> delays;
  for (int i = 0; i < 8; ++i) {
    http_.AnswerStream({.error = Error{ErrorKind::kUnauthorized, "refused"}});
    delays.push_back(Exchange());
  }
  EXPECT_GE(delays.front(), milliseconds(800));
  EXPECT_LE(delays.front(), milliseconds(1600));
  EXPECT_GE(delays.back(), seconds(30));
  EXPECT_LE(delays.back(), seconds(60));

  milliseconds lasts{0};
  http_.on_stream = [&](const http::Request&) {
    clock_.Advance(lasts);
    return FakeStream{.error = Error{ErrorKind::kUnauthorized, "cut"}};
  };
  EXPECT_GE(Exchange(), seconds(30)) << "a watch that lasted no time";
  lasts = seconds(1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Exchange(), milliseconds(0)) << "after a watch that lasted";
  lasts = milliseconds(900);
  EXPECT_GE(Exchange(), milliseconds(800)) << "no hot loop of short watches";
}

TEST_F(ReflectorTest, DoesNotLoopHotWhenWatchesEndAtOnce) {
  FillCache();
  http_.AnswerStream({});

  EXPECT_GE(Exchange(), milliseconds(800));
}

TEST_F(ReflectorTest, ListsAgainAfterEventsItDoesNotUnderstand) {
  for (const char* bad :
       {"no json\n", "{\"type\":\"ADDED\"}\n", "{\"type\":\"NEW\",\"object\":{}}\n", "null\n",
        "{\"type\":\"BOOKMARK\",\"object\":{}}\n"}) {
    FillCache();
    http_.AnswerStream({.chunks = {bad}});
    Exchange();
    http_.AnswerStream({.chunks = {Bookmark(50, true)}});
    Exchange();

    EXPECT_TRUE(LastPathHas("sendInitialEvents=true")) << bad;
    EXPECT_EQ(store_.size(), 0u) << bad;
    http_.AnswerStream({.chunks = {EventLine("ERROR", StatusBody(410, "Expired"))}});
    Exchange();
  }
}

TEST_F(ReflectorTest, IgnoresObjectsWithoutName) {
  FillCache(EventLine("ADDED", "{}") + EventLine("ADDED", Pod("c", 12)));

  EXPECT_EQ(store_.size(), 3u);
}

TEST_F(ReflectorTest, GoesOnFromTheLastVersionOverAnotherStreamWhenItIsTold) {
  http_.AnswerStream({.chunks = {Bookmark(10, true)}, .until_stopped = true});
  http_.AnswerStream({.chunks = {EventLine("ADDED", Pod("c", 12))}, .until_stopped = true});
  reflector_.Reconnect();  // no watch exists yet
  reflector_.Start();
  ASSERT_TRUE(Eventually([&] { return reflector_.Synced(); }));

  reflector_.Reconnect();

  ASSERT_TRUE(Eventually([&] { return store_.LastSeenVersion() == "12"; }));
  EXPECT_TRUE(LastPathHas("resourceVersion=10"));
  EXPECT_FALSE(LastPathHas("sendInitialEvents"));
  EXPECT_EQ(reflector_.Problem(), "");
  reflector_.Stop();
}

TEST_F(ReflectorTest, StopsAtOnceInTheMiddleOfAWatch) {
  http_.AnswerStream({.chunks = {Bookmark(10, true)}, .until_stopped = true});
  reflector_.Start();
  ASSERT_TRUE(Eventually([&] { return reflector_.Synced(); }));
  EXPECT_TRUE(reflector_.Healthy(seconds(1)));
  clock_.Advance(seconds(2));
  EXPECT_FALSE(reflector_.Healthy(seconds(1))) << "nothing moved for two seconds";

  reflector_.Stop();

  EXPECT_FALSE(reflector_.Healthy(seconds(3600)));
}

}  // namespace
}  // namespace ringmaster::runtime
