#include "operator/job/model/reports.h"

#include <functional>

#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::RunningWorld;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;

TEST(Reports, ALauncherThatWasNeverPolledIsPolledFirst) {
  struct Row {
    const char* name;
    std::function<void(Scene&)> change;
    bool not_asked;
  };
  const auto refused = [](RefusalCause cause) {
    return [cause](Scene& scene) { scene.memory.refusal = Refusal{.cause = cause}; };
  };
  const auto is = [](const PodBuilder& pod) {
    return [pod](Scene& scene) { scene.observed.launcher = pod.Build(); };
  };
  const Row table[] = {
      {"it runs", [](Scene&) {}, true},
      {"it was asked", [](Scene& scene) { scene.Answers({}); }, false},
      {"an earlier one was",
       [](Scene& scene) {
         scene.Answers({});
         scene.launcher->pod_uid = "uid-launcher-0";
       },
       true},
      {"there is none", [](Scene& scene) { scene.observed.launcher = nullptr; }, false},
      {"it is being deleted", is(PodBuilder::Launcher(1).Deleting()), false},
      {"it has ended", is(PodBuilder::Launcher(1).Ended(1, "Error")), false},
      {"it has no address",
       [](Scene& scene) {
         PodView launcher = *scene.observed.launcher;
         launcher.ip.clear();
         scene.observed.launcher = std::make_shared<const PodView>(launcher);
       },
       false},
      {"nobody can be asked, as the keys are not known",
       refused(RefusalCause::kCredentialsUnavailable), false},
      {"Pods are refused", refused(RefusalCause::kQuotaExceeded), true},
  };
  for (const Row& row : table) {
    const api::TrainingJob job = RunningJob(1);
    Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(1).Build()};
    row.change(scene);

    EXPECT_EQ(NotAskedYet(scene.Input()), row.not_asked) << row.name;
  }
}

TEST(Reports, AWorkerIsAsSlowAsItsSlowestRank) {
  const api::TrainingJob job = RunningJob(1);
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(1).Build()};
  scene.Answers(RunningWorld(1));
  const auto slow = [](const char* uid, double step, double median) {
    return control::Straggler{.pod_uid = uid, .step_millis = step, .median_millis = median};
  };
  scene.launcher->status->stragglers = {slow("a", 2, 0.5), slow("a", 1, 0.5), slow("b", 5, 0)};
  const PlanInput input = scene.Input();
  const Reports reports(input);

  EXPECT_EQ(reports.Slowness("a"), 4);
  EXPECT_EQ(reports.Slowness("b"), 0) << "nothing to compare with";
  EXPECT_EQ(reports.Slowness("c"), 0) << "it is not slow";
}

}  // namespace
}  // namespace ringmaster::job
