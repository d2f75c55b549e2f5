#include "operator/job/policy/launcher_policy.h"

#include <gtest/gtest.h>

#include "operator/job/model/reports.h"
#include "tests/builders/job_builder.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::DeletedNames;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::RunningWorld;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;
using std::chrono::milliseconds;
using std::chrono::seconds;

Scene Running() {
  const api::TrainingJob job = RunningJob();
  Scene scene{.job = job,
              .observed = SceneBuilder(job).Launcher().Workers(3).Node("node-1").Build()};
  scene.memory.nodes = {"node-1"};
  scene.Answers(RunningWorld(3));
  return scene;
}

LauncherCheck Check(const Scene& scene) {
  return CheckLauncher(scene.observed, scene.memory.nodes,
                       {.own = PresentLauncher(scene.Input()),
                        .answered_earlier = scene.job.status.world_size > 0,
                        .all = scene.launchers},
                       scene.now);
}

SceneBuilder& NodeNotReady(SceneBuilder&& builder) {
  return builder.Launcher().Workers(3).Node("node-1", false);
}

TEST(LauncherPolicy, WhoIsReplaced) {
  struct Row {
    const char* why;
    std::function<void(Scene&)> change;
    bool lost;
    std::optional<milliseconds> again;
  };
  const Row table[] = {
      {"it answers", [](Scene&) {}, false, {}},
      {"silent for 2 s", [](Scene& s) { s.Silent(seconds(2)); }, false, seconds(3)},
      {"silent for a moment less than 5 s", [](Scene& s) { s.Silent(milliseconds(4999)); }, false,
       milliseconds(1)},
      {"silent, but it has ended",
       [](Scene& s) {
         s.observed = SceneBuilder(s.job).With(PodBuilder::Launcher(1).Ended(1, "Error")).Build();
         s.Silent(seconds(60));
       },
       false,
       {}},
      {"silent, but somebody deletes it",
       [](Scene& s) {
         s.observed = SceneBuilder(s.job).With(PodBuilder::Launcher(1).Deleting()).Build();
         s.Silent(seconds(60));
       },
       false,
       {}},
      {"silent for 5 s", [](Scene& s) { s.Silent(seconds(5)); }, true, {}},
      {"one question without an answer", [](Scene& s) { s.Silent(seconds(9), 1); }, false, {}},
      {"two of them", [](Scene& s) { s.Silent(seconds(9), 2); }, true, {}},
      {"it refuses our order",
       [](Scene& s) {
         s.Silent(seconds(60));
         s.launcher->unheard_since.reset();
       },
       false,
       {}},
      {"it has never answered",
       [](Scene& s) {
         s.launcher.reset();
         s.Silent(seconds(60));
       },
       false,
       {}},
      {"it has never answered this operator, but an earlier one",
       [](Scene& s) {
         s.launcher.reset();
         s.Silent(seconds(6));
         s.job.status.world_size = 1;
       },
       true,
       {}},
      {"nobody has asked it yet",
       [](Scene& s) {
         s.launcher.reset();
         s.job.status.world_size = 3;
         s.observed = NodeNotReady(SceneBuilder(s.job)).Build();
       },
       false,
       {}},
      {"starting on a node that is not ready",
       [](Scene& s) {
         s.launcher.reset();
         s.Silent(milliseconds(300), 2);
         s.observed = NodeNotReady(SceneBuilder(s.job)).Build();
       },
       true,
       {}},
      {"starting on a node that is not ready, and one question was without an answer",
       [](Scene& s) {
         s.launcher.reset();
         s.Silent(milliseconds(300), 1);
         s.observed = NodeNotReady(SceneBuilder(s.job)).Build();
       },
       false,
       {}},
      {"on a node that is not ready, and without an address so that nobody can ask it",
       [](Scene& s) {
         s.launcher.reset();
         s.observed = NodeNotReady(SceneBuilder(s.job)).Build();
         PodView launcher = *s.observed.launcher;
         launcher.ip.clear();
         s.observed.launcher = std::make_shared<const PodView>(launcher);
       },
       true,
       {}},
      {"answers from a node that is not ready",
       [](Scene& s) { s.observed = NodeNotReady(SceneBuilder(s.job)).Build(); },
       false,
       {}},
      {"its node was deleted",
       [](Scene& s) { s.observed = SceneBuilder(s.job).Launcher().Workers(3).Node("x").Build(); },
       true,
       {}},
      {"alone and silent for 4 s",
       [](Scene& s) {
         s.launchers = {.watched = 1, .unheard = 1};
         s.Silent(seconds(4));
       },
       false, seconds(1)},
      {"alone and silent for 5 s",
       [](Scene& s) {
         s.launchers = {.watched = 1, .unheard = 1};
         s.Silent(seconds(5));
       },
       true,
       {}},
      {"half of all are silent",
       [](Scene& s) {
         s.launchers = {.watched = 4, .unheard = 2};
         s.Silent(seconds(5));
       },
       true,
       {}},
      {"most of all are silent",
       [](Scene& s) {
         s.launchers = {.watched = 4, .unheard = 3};
         s.Silent(seconds(60));
       },
       false, seconds(5)},
      {"both are silent",
       [](Scene& s) {
         s.launchers = {.watched = 2, .unheard = 2};
         s.Silent(seconds(60));
       },
       false, seconds(5)},
      {"all have been silent for longer than a failure of our network is waited for",
       [](Scene& s) {
         s.launchers = {.watched = 2, .unheard = 2, .other_namespaces = 3, .silent_namespaces = 3};
         s.Silent(seconds(65));
       },
       true,
       {}},
      {"one tenant silences all of its launchers, and there is no other",
       [](Scene& s) {
         s.launchers = {.watched = 1, .unheard = 1, .other_namespaces = 1, .silent_namespaces = 1};
         s.Silent(seconds(5));
       },
       true,
       {}},
      {"one of two other tenants silences all of its launchers",
       [](Scene& s) {
         s.launchers = {.watched = 9, .unheard = 1, .other_namespaces = 2, .silent_namespaces = 1};
         s.Silent(seconds(5));
       },
       true,
       {}},
      {"most of its own namespace are silent, those of others are heard",
       [](Scene& s) {
         s.launchers = {.watched = 3, .unheard = 3, .other_namespaces = 2, .silent_namespaces = 1};
         s.Silent(seconds(5));
       },
       true,
       {}},
      {"most namespaces are silent",
       [](Scene& s) {
         s.launchers = {.watched = 1, .unheard = 1, .other_namespaces = 3, .silent_namespaces = 2};
         s.Silent(seconds(5));
       },
       false, seconds(60)},
      {"its own namespace and the other one are silent",
       [](Scene& s) {
         s.launchers = {.watched = 2, .unheard = 2, .other_namespaces = 1, .silent_namespaces = 1};
         s.Silent(seconds(5));
       },
       false, seconds(60)},
      {"both are silent, this one's node is not ready",
       [](Scene& s) {
         s.launchers = {.watched = 2, .unheard = 2};
         s.Silent(seconds(5));
         s.observed = NodeNotReady(SceneBuilder(s.job)).Build();
       },
       true,
       {}},
      {"silent while most nodes are not ready",
       [](Scene& s) {
         s.Silent(seconds(60));
         s.observed = NodeNotReady(SceneBuilder(s.job)).NodesNotReady(3, 4).Build();
       },
       false,
       {}},
      {"the silence of an earlier launcher",
       [](Scene& s) {
         s.Silent(seconds(60));
         s.launcher->pod_uid = "uid-launcher-0";
       },
       false,
       {}},
  };
  for (const Row& row : table) {
    Scene scene = Running();
    row.change(scene);

    const LauncherCheck check = Check(scene);

    EXPECT_EQ(!check.lost.empty(), row.lost) << row.why << ": " << check.lost;
    EXPECT_EQ(check.again, row.again) << row.why;
    EXPECT_EQ(scene.Make().end_launcher.has_value(), row.lost) << row.why;
  }
}

TEST(LauncherPolicy, ASilentOneIsDeletedAndTheNextTermMadeAtOnce) {
  Scene scene = Running();
  PodView seen = *scene.observed.launcher;
  seen.resource_version = "41";
  scene.observed.launcher = std::make_shared<const PodView>(seen);
  scene.Silent(seconds(5));

  const Plan plan = scene.Make();

  EXPECT_EQ(plan.raise_term, 2);
  EXPECT_EQ(plan.create_launcher, 2);
  EXPECT_EQ(plan.point_service_at, 2);
  ASSERT_TRUE(plan.end_launcher.has_value());
  EXPECT_EQ(plan.end_launcher->name, "digits-launcher-1");
  EXPECT_EQ(plan.end_launcher->uid, seen.uid);
  EXPECT_EQ(plan.end_launcher->resource_version, "41")
      << "a Pod that changed since may have ended with a verdict";
  EXPECT_TRUE(plan.deletes.empty());
  EXPECT_TRUE(plan.create_workers.empty());
  EXPECT_FALSE(plan.order.has_value());
  ASSERT_EQ(plan.status.failures.size(), 1u);
  EXPECT_EQ(plan.status.failures[0].reason, api::kReasonLauncherLost);
  EXPECT_EQ(plan.status.world_size, 0) << "nothing of it counts any more";
}

TEST(LauncherPolicy, ReportsThatMostLaunchersAreSilent) {
  Scene scene = Running();
  scene.launchers = {.watched = 4, .unheard = 3};
  scene.Silent(seconds(6));

  const Plan plan = scene.Make();

  EXPECT_FALSE(plan.raise_term.has_value());
  EXPECT_TRUE(plan.deletes.empty());
  EXPECT_EQ(plan.launcher_held,
            "3 of 4 launchers of this namespace do not answer, which suggests a problem with the "
            "operator's network rather than with the launchers: this one is replaced only if it "
            "stays silent for 65 s");
  const auto ready = std::find_if(plan.status.conditions.begin(), plan.status.conditions.end(),
                                  [](const auto& c) { return c.type == api::kWorkersReady; });
  ASSERT_NE(ready, plan.status.conditions.end());
  EXPECT_EQ(ready->reason, api::kReasonLauncherUnreachable);
  EXPECT_NE(ready->message.find("3 of 4 launchers"), std::string::npos) << ready->message;

  scene.launchers = {.watched = 1, .unheard = 1, .other_namespaces = 3, .silent_namespaces = 2};
  const std::string of_others = scene.Make().launcher_held;
  EXPECT_TRUE(
      of_others.starts_with("1 of 1 launchers of this namespace, and most launchers of 2 "
                            "of 3 other namespaces, do not answer"))
      << of_others;
}

TEST(LauncherPolicy, ASilentOneKeepsItsPlaceWhileTheNextHasToWait) {
  Scene scene = Running();
  for (const char* time : {"2026-11-20T10:00:00Z", "2026-11-20T09:59:50Z", "2026-11-20T09:59:40Z",
                           "2026-11-20T09:59:30Z"}) {
    scene.job.status.failures.push_back(
        {.pod_uid = time, .reason = api::kReasonLauncherLost, .time = time});
  }
  scene.Silent(seconds(60));

  const Plan plan = scene.Make();

  EXPECT_FALSE(plan.raise_term.has_value());
  EXPECT_TRUE(plan.deletes.empty());
  EXPECT_TRUE(plan.order.has_value()) << "it may come back";
  EXPECT_EQ(plan.requeue_after, seconds(2));
}

}  // namespace
}  // namespace ringmaster::job
