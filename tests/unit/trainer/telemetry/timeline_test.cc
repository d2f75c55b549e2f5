#include "worker/trainer/telemetry/timeline.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/fakes/fake_clock.h"
#include "tests/unit/trainer/temporary_folder.h"

namespace ringmaster::trainer {
namespace {

using nlohmann::json;
using std::chrono::microseconds;

class TimelineTest : public ::testing::Test {
 protected:
  // Returns the timeline that rank 1 of a world writes.
  json Written() {
    timeline.EnterWorld(1, "digits-worker-1/0/1");
    timeline.Write();
    std::ifstream file(folder.path() + "/traces/digits-worker-1-0-1.json");
    return json::parse(file).at("traceEvents");
  }

  const TemporaryFolder folder;
  FakeClock clock;
  Timeline timeline{folder.path() + "/traces", clock};
};

json Named(const json& events, const std::string& name) {
  for (const json& event : events) {
    if (event.at("name") == name) return event;
  }
  return {};
}

TEST_F(TimelineTest, RecordsPhasesPartsAndOperations) {
  ASSERT_TRUE(timeline.MakeFolder().ok());
  const auto begin = clock.WallNow().time_since_epoch();
  timeline.SetStep(7);
  timeline.Enter("data");
  clock.Advance(microseconds(30));
  timeline.Enter("compute");
  timeline.Enter("compute");  // continues this phase
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

  const json events = Written();

  const json data = Named(events, "data");
  EXPECT_EQ(data.at("ph"), "X");
  const double wall_clock = std::chrono::duration<double, std::micro>(begin).count();
  EXPECT_NEAR(data.at("ts").get<double>(), wall_clock, 1);
  EXPECT_DOUBLE_EQ(data.at("dur").get<double>(), 30);
  EXPECT_EQ(data.at("pid"), 1);
  EXPECT_EQ(data.at("args").at("step"), 7);
  EXPECT_DOUBLE_EQ(Named(events, "compute").at("dur").get<double>(), 20) << "ends now";
  EXPECT_DOUBLE_EQ(Named(events, "forward").at("dur").get<double>(), 20);
  EXPECT_EQ(Named(events, "allreduce").at("args").at("bucket"), 2);
  EXPECT_EQ(Named(events, "allreduce").at("args").at("bytes"), 4096);
  EXPECT_NE(Named(events, "allreduce").at("tid"), Named(events, "forward").at("tid"));
  EXPECT_EQ(Named(events, "process_name").at("args").at("name"), "rank 1 digits-worker-1/0/1");
}

TEST_F(TimelineTest, KeepsTheNewest) {
  ASSERT_TRUE(timeline.MakeFolder().ok());
  for (std::size_t i = 0; i < Timeline::kMostEvents + 10; ++i) {
    timeline.SetStep(static_cast<int64_t>(i));
    timeline.Add({.name = "forward"});
  }

  const json events = Written();

  EXPECT_EQ(events.size(), Timeline::kMostEvents + 4);
  EXPECT_EQ(Named(events, "forward").at("args").at("step"), 10);
}

TEST_F(TimelineTest, RefusesWhatIsNoFolder) {
  const Timeline in_a_file(folder.Write("file", "") + "/traces", clock);

  const Result<void> made = in_a_file.MakeFolder();

  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::kInvalid);
}

}  // namespace
}  // namespace ringmaster::trainer
