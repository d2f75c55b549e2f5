#include "operator/job/policy/pod_events.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using ringmaster::testing::EventReasons;
using ringmaster::testing::JobBuilder;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;
using std::chrono::milliseconds;
using std::chrono::seconds;

PodBuilder Creating(int index) {
  return PodBuilder::Worker(index).Waiting("ContainerCreating", "");
}

// A job that is reconciled repeatedly and whose workers do not start.
struct Starting {
  Scene scene;

  explicit Starting(int workers) : scene(Make(workers)) {}
  static Scene Make(int workers) {
    const api::TrainingJob job = RunningJob(workers);
    SceneBuilder builder(job);
    builder.Launcher();
    for (int index = 0; index < workers; ++index) builder.With(Creating(index));
    return {.job = job, .observed = builder.Build()};
  }

  Plan After(milliseconds time) {
    scene.now += time;
    Remember(scene.observed, scene.launcher, scene.now, scene.memory);
    return scene.Make();
  }
  // Folds in a Pod's newest warning. Returns whether it is news.
  bool Answer(const Plan& plan, const std::string& warning) {
    const EventsRead read =
        AfterReading(scene.memory.slow_start, *plan.ask_about, warning, scene.now);
    scene.memory.slow_start = read.slow;
    return read.news;
  }
};

json Event(const std::string& uid, const std::string& type, const std::string& note,
           const std::string& time) {
  return {{"regarding", {{"uid", uid}}},
          {"type", type},
          {"reason", "FailedMount"},
          {"note", note},
          {"deprecatedLastTimestamp", time}};
}

TEST(PodEvents, EventsOfAPodThatDoesNotStartAreReadAfterFiveSecondsAndThenLessOften) {
  Starting job(1);

  const Plan first = job.After(milliseconds(0));
  EXPECT_FALSE(first.ask_about.has_value());
  EXPECT_EQ(first.requeue_after, seconds(5));
  const Plan second = job.After(seconds(5));
  ASSERT_TRUE(second.ask_about.has_value());
  EXPECT_EQ(second.ask_about->uid, "uid-worker-0");
  EXPECT_FALSE(job.Answer(second, ""));
  EXPECT_FALSE(job.After(milliseconds(4999)).ask_about.has_value());
  int asked = 0;
  for (int second_of_hour = 0; second_of_hour < 3600; ++second_of_hour) {
    const Plan plan = job.After(seconds(1));
    if (!plan.ask_about) continue;
    ++asked;
    job.Answer(plan, "");
  }
  EXPECT_LE(asked, 65);
  EXPECT_GE(asked, 55);
}

TEST(PodEvents, AWarningAboutOneOfManyPodsIsEnough) {
  Starting job(300);
  job.After(milliseconds(0));

  const Plan asks = job.After(seconds(5));
  ASSERT_TRUE(asks.ask_about.has_value());
  EXPECT_TRUE(job.Answer(asks, "FailedMount: configmap \"data\" not found"));
  const Plan plan = job.After(milliseconds(1));

  const api::Condition* ready = api::FindCondition(plan.status.conditions, api::kWorkersReady);
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->reason, api::kReasonPodNotStarting);
  EXPECT_EQ(
      ready->message,
      "digits-worker-0 on node node-1 does not start: FailedMount: configmap \"data\" not "
      "found; create the ConfigMap in namespace team-a, and the job continues; or correct its "
      "name in the job, delete the job and apply it again");
  EXPECT_EQ(EventReasons(plan), std::vector<std::string>{api::kReasonPodNotStarting});
  const Plan again = job.After(seconds(60));
  EXPECT_EQ(again.ask_about->uid, "uid-worker-0") << "until it is mended";
  EXPECT_FALSE(job.Answer(again, "FailedMount: configmap \"data\" not found")) << "no news";
}

TEST(PodEvents, AnotherWarningIsNewsAndSoIsTheSameOneOfAnotherPod) {
  const PodQuestion one{.pod = "digits-worker-0", .uid = "uid-worker-0"};
  const PodQuestion other{.pod = "digits-worker-1", .uid = "uid-worker-1"};
  SlowStart slow;
  const auto news = [&](const PodQuestion& question, const char* warning) {
    const EventsRead read = AfterReading(slow, question, warning, Clock::Time{});
    slow = read.slow;
    return read.news;
  };

  EXPECT_TRUE(news(one, "x"));
  EXPECT_FALSE(news(one, "x"));
  EXPECT_TRUE(news(one, "y"));
  EXPECT_TRUE(news(other, "y"));
  EXPECT_TRUE(news(other, ""));
  EXPECT_FALSE(news(one, ""));
}

TEST(PodEvents, WithoutAWarningThePodsTakeTurns) {
  Starting job(2);
  job.After(milliseconds(0));
  std::vector<std::string> asked;
  for (int times = 0; times < 3; ++times) {
    const Plan plan = job.After(seconds(60));
    ASSERT_TRUE(plan.ask_about.has_value());
    asked.push_back(plan.ask_about->pod);
    job.Answer(plan, "");
  }
  EXPECT_EQ(asked,
            (std::vector<std::string>{"digits-worker-0", "digits-worker-1", "digits-worker-0"}));
}

TEST(PodEvents, WhoHasWaitedLongestIsAskedAboutFirst) {
  Starting job(2);
  job.scene.observed =
      SceneBuilder(job.scene.job).Launcher().With(PodBuilder::Worker(0)).With(Creating(1)).Build();
  job.After(milliseconds(0));
  job.scene.observed = Starting(2).scene.observed;
  EXPECT_EQ(job.After(seconds(3)).requeue_after, seconds(2));

  const Plan plan = job.After(seconds(2));

  ASSERT_TRUE(plan.ask_about.has_value());
  EXPECT_EQ(plan.ask_about->pod, "digits-worker-1");
}

TEST(PodEvents, PodsWithAReasonOrWithoutANodeAreSkipped) {
  for (const PodBuilder& pod :
       {PodBuilder::Worker(0), PodBuilder::Worker(0).Unschedulable("no node"),
        PodBuilder::Worker(0).Waiting("ImagePullBackOff", "not found"), Creating(0).OnNode(""),
        Creating(0).Deleting()}) {
    Starting job(1);
    job.scene.observed = SceneBuilder(job.scene.job).Launcher().With(pod).Build();
    job.After(milliseconds(0));

    EXPECT_FALSE(job.After(seconds(30)).ask_about.has_value());
  }
}

TEST(PodEvents, TheWarningIsForgottenOnceThePodStarts) {
  Starting job(1);
  job.After(milliseconds(0));
  job.Answer(job.After(seconds(5)), "FailedMount: x");
  job.scene.observed = SceneBuilder(job.scene.job).Launcher().Workers(1).Build();

  const Plan plan = job.After(seconds(1));

  EXPECT_NE(api::FindCondition(plan.status.conditions, api::kWorkersReady)->reason,
            api::kReasonPodNotStarting);
  EXPECT_TRUE(job.scene.memory.slow_start.warning.empty());
}

TEST(PodEvents, TheStartTimeoutReportsWhatKeptThePodFromStarting) {
  Starting job(1);
  job.scene.job.status.start_time = "2026-11-20T09:59:00Z";
  job.scene.job.spec.run_policy.start_timeout = seconds(60);
  job.scene.memory.slow_start = {.since = {{"uid-worker-0", job.scene.now - seconds(50)}},
                                 .asked = "uid-worker-0",
                                 .warning = "FailedMount: secret \"keys\" not found",
                                 .ask_again = job.scene.now + seconds(5)};
  job.scene.launcher = LauncherView{.pod_uid = "uid-launcher-1", .answered_before = true};

  const Plan plan = job.After(milliseconds(0));

  const api::Condition* failed = api::FindCondition(plan.status.conditions, api::kFailed);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->reason, api::kReasonStartTimeout);
  EXPECT_NE(failed->message.find("secret \"keys\" not found"), std::string::npos)
      << failed->message;
}

TEST(PodEvents, TheNewestEventSpeaks) {
  const json missing = Event("u", "Warning", "secret \"keys\" not found", "2026-11-20T10:00:02Z");
  const json pulling = Event("u", "Normal", "Pulling image", "2026-11-20T10:00:03Z");

  EXPECT_EQ(NewestWarning({missing}, "u"), "FailedMount: secret \"keys\" not found");
  EXPECT_EQ(NewestWarning({pulling, missing}, "u"), "") << "that is over";
  json repeated = missing;
  repeated["series"] = {{"lastObservedTime", "2026-11-20T10:05:00.000000Z"}};
  EXPECT_EQ(NewestWarning({repeated, pulling}, "u"), "FailedMount: secret \"keys\" not found");
  const json next = Event("u", "Warning", "no disk", "2026-11-20T10:00:02Z");
  EXPECT_EQ(NewestWarning({missing, next}, "u"), "FailedMount: no disk") << "of the same second";
  EXPECT_EQ(NewestWarning({}, "u"), "");
  for (const char* state : {"Error: ErrImagePull", "Error: ImagePullBackOff"}) {
    const json repeats = Event("u", "Warning", state, "2026-11-20T10:00:04Z");
    EXPECT_EQ(NewestWarning({repeats}, "u"), "");
  }
  const json other = Event("u", "Warning", "Error: no such device", "2026-11-20T10:00:04Z");
  EXPECT_EQ(NewestWarning({other}, "u"), "FailedMount: Error: no such device");
}

// Anyone who may write Events in the namespace can write such Events.
TEST(PodEvents, AStrangersTextIsOneShortLine) {
  json event = Event("u", "Warning", "a\nb\x1b[31m\x7f" + std::string(100'000, 'x'), "z");
  event["reason"] = std::string(100'000, 'R');

  const std::string said = NewestWarning({event}, "u");

  EXPECT_EQ(said, std::string(64, 'R') + ": a b [31m " + std::string(503, 'x'));
  EXPECT_EQ(NewestWarning({Event("other", "Warning", "x", "z")}, "u"), "");
  for (const json& wrong :
       {json("text"), json{{"regarding", 7}},
        json{{"regarding", {{"uid", "u"}}}, {"type", "Warning"}, {"note", 7}}}) {
    EXPECT_LE(NewestWarning({wrong}, "u").size(), 2U);
  }
}

}  // namespace
}  // namespace ringmaster::job
