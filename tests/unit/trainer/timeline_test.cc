#include "worker/trainer/timeline/timeline.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/fakes/fake_clock.h"

namespace ringmaster::trainer {
namespace {

using nlohmann::json;
using std::chrono::microseconds;

json Parsed(const Timeline& timeline) {
  return json::parse("[" + timeline.ToTraceEvents(3, "digits-worker-1/0") + "]");
}

json Named(const json& events, const std::string& name) {
  for (const json& event : events) {
    if (event.at("name") == name) return event;
  }
  return {};
}

TEST(Timeline, TellsPhasesPartsAndOperations) {
  FakeClock clock;
  Timeline timeline(clock);
  timeline.SetStep(7);
  timeline.Enter("data");
  clock.Advance(microseconds(30));
  timeline.Enter("compute");
  timeline.Enter("compute");  // goes on
  {
    const TimedPart forward(&timeline, clock, "forward");
    clock.Advance(microseconds(20));
  }
  timeline.Add({.name = "allreduce",
                .track = Timeline::Track::kNetwork,
                .begin = clock.Now(),
                .end = clock.Now() + microseconds(5),
                .bucket = 2,
                .bytes = 4096});
  timeline.SetOffset(1'000'000);

  const json events = Parsed(timeline);

  const json data = Named(events, "data");
  EXPECT_EQ(data.at("ph"), "X");
  EXPECT_DOUBLE_EQ(data.at("dur").get<double>(), 30);
  EXPECT_EQ(data.at("pid"), 3);
  EXPECT_EQ(data.at("args").at("step"), 7);
  EXPECT_DOUBLE_EQ(Named(events, "compute").at("dur").get<double>(), 20) << "ends now";
  EXPECT_DOUBLE_EQ(Named(events, "forward").at("dur").get<double>(), 20);
  EXPECT_EQ(Named(events, "allreduce").at("args").at("bucket"), 2);
  EXPECT_EQ(Named(events, "allreduce").at("args").at("bytes"), 4096);
  EXPECT_NE(Named(events, "allreduce").at("tid"), Named(events, "forward").at("tid"));
  EXPECT_EQ(Named(events, "process_name").at("args").at("name"), "rank 3 digits-worker-1/0");
  Timeline later(clock);
  later.Enter("data");
  EXPECT_NEAR(Named(events, "data").at("ts").get<double>() -
                  Named(Parsed(later), "data").at("ts").get<double>(),
              1000 - 50, 1e-3);
}

TEST(Timeline, KeepsTheNewest) {
  FakeClock clock;
  Timeline timeline(clock);
  for (std::size_t i = 0; i < Timeline::kMostEvents + 10; ++i) {
    timeline.SetStep(static_cast<int64_t>(i));
    timeline.Add({.name = "forward"});
  }

  const json events = Parsed(timeline);

  EXPECT_EQ(events.size(), Timeline::kMostEvents + 4);
  EXPECT_EQ(Named(events, "forward").at("args").at("step"), 10);
}

}  // namespace
}  // namespace ringmaster::trainer
