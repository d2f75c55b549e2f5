#include "operator/job/policy/loss_policy.h"

#include <gtest/gtest.h>

#include "operator/job/policy/node_policy.h"
#include "tests/builders/job_builder.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::DeletedNames;
using ringmaster::testing::EventReasons;
using ringmaster::testing::OrderedNames;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::RunningWorld;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;
using Strings = std::vector<std::string>;

// Workers 0 … 3 on nodes node-0 … node-3 and the launcher on node-1, all healthy by default.
struct Machines {
  std::set<int> not_ready{};
  std::optional<int> out_of_service{};
  std::optional<int> deleted{};
  int cluster_not_ready = 0;
  int cluster = 100;
};

Scene FourWorkers(const Machines& machines) {
  const api::TrainingJob job = RunningJob(4);
  SceneBuilder builder(job);
  builder.Launcher();
  Scene scene{.job = job};
  for (int index = 0; index < 4; ++index) {
    const std::string name = "node-" + std::to_string(index);
    builder.With(PodBuilder::Worker(index).OnNode(name));
    scene.memory.nodes.insert(name);
    if (machines.deleted == index) continue;
    NodeView node;
    node.name = name;
    node.ready = !machines.not_ready.contains(index);
    node.out_of_service = machines.out_of_service == index;
    builder.With(node);
  }
  builder.NodesNotReady(machines.cluster_not_ready, machines.cluster);
  scene.observed = builder.Build();
  scene.Answers(RunningWorld(4));
  return scene;
}

// Makes the launcher report that worker 2 has not connected.
void NotConnected(Scene& scene, control::LauncherPhase phase) {
  scene.launcher->status->phase = phase;
  scene.launcher->status->workers[2].ready = false;
}

TEST(LossPolicy, WhoIsReplacedAtOnce) {
  struct Row {
    const char* why;
    Machines machines;
    std::function<void(Scene&)> change;
    const char* reason;  // reason of worker 2's failure; null: no failure
  };
  const auto report = [](Scene& scene) -> control::WorkerReport& {
    return scene.launcher->status->workers[2];
  };
  const Row table[] = {
      {"all well", {}, [](Scene&) {}, nullptr},
      {"fenced", {}, [&](Scene& s) { report(s).fenced = true; }, api::kReasonWorkerLost},
      {"not connected on a good node", {}, [&](Scene& s) { report(s).ready = false; }, nullptr},
      {"heard on a node that is not ready", {.not_ready = {2}}, [](Scene&) {}, nullptr},
      {"not connected on a node that is not ready",
       {.not_ready = {2}},
       [&](Scene& s) { report(s).ready = report(s).member = false; },
       api::kReasonNodeNotReady},
      {"never dialled from a node that is not ready",
       {.not_ready = {2}},
       [&](Scene& s) {
         s.launcher->status->workers.erase(s.launcher->status->workers.begin() + 2);
       },
       api::kReasonNodeNotReady},
      {"not connected, but its launcher waits for an order",
       {.not_ready = {2}},
       [&](Scene& s) { NotConnected(s, control::LauncherPhase::kWaitingForOrder); },
       nullptr},
      {"not connected, but its launcher waits for agents",
       {.not_ready = {2}},
       [&](Scene& s) { NotConnected(s, control::LauncherPhase::kWaitingForAgents); },
       nullptr},
      {"not connected, but its launcher adopts a world",
       {.not_ready = {2}},
       [&](Scene& s) { NotConnected(s, control::LauncherPhase::kAdopting); },
       nullptr},
      {"not connected just before 5 s after its launcher's first answer",
       {.not_ready = {2}},
       [&](Scene& s) {
         NotConnected(s, control::LauncherPhase::kForming);
         s.launcher->answered_since = s.now - std::chrono::milliseconds(4999);
       },
       nullptr},
      {"not connected 5 s after its launcher's first answer",
       {.not_ready = {2}},
       [&](Scene& s) {
         NotConnected(s, control::LauncherPhase::kForming);
         s.launcher->answered_since = s.now - std::chrono::seconds(5);
       },
       api::kReasonNodeNotReady},
      {"not connected, but the launcher is not heard either",
       {.not_ready = {2}},
       [&](Scene& s) {
         report(s).ready = false;
         s.launcher->silent_since = s.now;
       },
       nullptr},
      {"nobody knows yet", {.not_ready = {2}}, [&](Scene& s) { s.launcher.reset(); }, nullptr},
      {"on a deleted node", {.deleted = 2}, [](Scene&) {}, api::kReasonNodeLost},
      {"on a node that was never seen",
       {.deleted = 2},
       [](Scene& s) { s.memory.nodes.erase("node-2"); },
       nullptr},
      {"nodes cannot be watched",
       {.deleted = 2},
       [](Scene& s) { s.observed.nodes.known = false; },
       nullptr},
      {"on a node out of service", {.out_of_service = 2}, [](Scene&) {}, api::kReasonNodeLost},
      {"lost, but most nodes of the job are not ready",
       {.not_ready = {0, 2, 3}},
       [&](Scene& s) { report(s).fenced = true; },
       nullptr},
      {"lost, half of the nodes of the job are not ready",
       {.not_ready = {2, 3}},
       [&](Scene& s) { report(s).fenced = true; },
       api::kReasonWorkerLost},
      {"lost, but most nodes of the cluster are not ready",
       {.not_ready = {2}, .cluster_not_ready = 51},
       [&](Scene& s) { report(s).fenced = true; },
       nullptr},
      {"lost, but two of three nodes of the cluster are not ready",
       {.not_ready = {2}, .cluster_not_ready = 2, .cluster = 3},
       [&](Scene& s) { report(s).fenced = true; },
       nullptr},
      {"lost on a good node while most are not ready",
       {.not_ready = {0, 1, 3}},
       [&](Scene& s) { report(s).fenced = true; },
       api::kReasonWorkerLost},
  };
  for (const Row& row : table) {
    Scene scene = FourWorkers(row.machines);
    row.change(scene);

    const Plan plan = scene.Make();

    if (row.reason == nullptr) {
      EXPECT_TRUE(plan.deletes.empty()) << row.why;
      EXPECT_FALSE(plan.CreatesPods()) << row.why;
      continue;
    }
    EXPECT_EQ(DeletedNames(plan), Strings{"digits-worker-2"}) << row.why;
    EXPECT_EQ(plan.create_workers, std::vector<int>{4}) << row.why;
    EXPECT_EQ(OrderedNames(plan),
              (Strings{"digits-worker-0", "digits-worker-1", "digits-worker-3"}))
        << row.why;
    ASSERT_EQ(plan.status.failures.size(), 1u) << row.why;
    EXPECT_EQ(plan.status.failures[0].reason, row.reason) << row.why;
    EXPECT_EQ(plan.status.failures[0].node, "node-2") << row.why;
    EXPECT_EQ(EventReasons(plan).front(), api::kEventWorkerLost) << row.why;
  }
}

TEST(LossPolicy, ManyUnreachableNodesAreAnnouncedOnce) {
  Scene scene = FourWorkers({.not_ready = {0, 2, 3}});
  scene.job.status.conditions.push_back(
      {.type = api::kRunning, .status = api::ConditionStatus::kTrue, .reason = "Training"});
  for (int worker : {0, 2, 3}) {
    scene.launcher->status->workers[static_cast<std::size_t>(worker)].ready = false;
  }

  const Plan first = scene.Make();
  scene.memory.announced_nodes = first.nodes_unreachable;
  scene.job.status = first.status;
  const Plan second = scene.Make();

  EXPECT_EQ(EventReasons(first), Strings{api::kEventNodesUnreachable});
  EXPECT_TRUE(first.events.front().warning);
  EXPECT_TRUE(second.events.empty());
  const api::Condition* ready = nullptr;
  for (const api::Condition& condition : first.status.conditions) {
    if (condition.type == api::kWorkersReady) ready = &condition;
  }
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->reason, api::kReasonNodesUnreachable);
  EXPECT_NE(ready->message.find("3 of 4 nodes"), std::string::npos) << ready->message;
}

TEST(LossPolicy, ManyUnreachableNodesAreLookedAtAgain) {
  const Plan plan = FourWorkers({.not_ready = {0, 2, 3}}).Make();

  EXPECT_EQ(plan.requeue_after, std::chrono::seconds(5));
}

TEST(LossPolicy, ANewLaunchersWorkersAreLookedAtAgainWhenTheyHadTheirTime) {
  using std::chrono::milliseconds;
  struct Row {
    int not_ready;
    int answered_millis_ago;
    std::optional<milliseconds> again;
  };
  const Row table[] = {{1, 2000, milliseconds(3000)},
                       {1, 4999, milliseconds(1)},
                       {1, 5000, std::nullopt},
                       {0, 2000, std::nullopt}};
  for (const auto& [not_ready, ago, again] : table) {
    Scene scene = FourWorkers({.not_ready = {2}, .cluster_not_ready = not_ready});
    scene.launcher->answered_since = scene.now - milliseconds(ago);

    EXPECT_EQ(scene.Make().requeue_after, again) << not_ready << " " << ago;
  }
}

TEST(LossPolicy, TwoWorkersOnANodeAreOneNode) {
  const Observed one_of_three = SceneBuilder(RunningJob(4))
                                    .With(PodBuilder::Worker(0).OnNode("node-0"))
                                    .With(PodBuilder::Worker(1).OnNode("node-0"))
                                    .With(PodBuilder::Worker(2).OnNode("node-1"))
                                    .With(PodBuilder::Worker(3).OnNode("node-2"))
                                    .Node("node-0", false)
                                    .Node("node-1")
                                    .Node("node-2")
                                    .Build();

  EXPECT_EQ(ManyUnreachable(one_of_three), "");
}

TEST(LossPolicy, ReportsThePodsNodeWithItsProblem) {
  NodeView drained;
  drained.name = "drained";
  drained.unschedulable = true;
  const NodesSeen nodes =
      SceneBuilder(RunningJob()).Node("good").Node("silent", false).With(drained).Build().nodes;
  const std::pair<const char*, const char*> table[] = {
      {"", ""},
      {"unknown", "on node unknown"},
      {"good", "on node good"},
      {"silent", "on node silent, which is not ready (NodeStatusUnknown)"},
      {"drained", "on node drained, which is being drained"}};
  for (const auto& [node, text] : table) {
    EXPECT_EQ(WherePodRuns(*PodBuilder::Worker(0).OnNode(node).Build(), nodes), text);
  }
}

TEST(LossPolicy, OneNodeIsNeverMany) {
  const api::TrainingJob job = RunningJob(1);
  Scene scene{.job = job,
              .observed = SceneBuilder(job)
                              .Launcher()
                              .With(PodBuilder::Worker(0).OnNode("node-0"))
                              .Node("node-0", false)
                              .NodesNotReady(1, 1)
                              .Build()};
  scene.Answers(RunningWorld(1));
  scene.launcher->status->workers[0].fenced = true;

  EXPECT_EQ(scene.Make().create_workers, std::vector<int>{1});
}

TEST(LossPolicy, TheOrderListsTheDeadWorkers) {
  Scene scene = FourWorkers({.deleted = 3});
  SceneBuilder builder(scene.job);
  builder.Launcher()
      .With(PodBuilder::Worker(0))
      .With(PodBuilder::Worker(1).Ended(137, "OOMKilled"))
      .With(PodBuilder::Worker(2).Deleting())
      .With(PodBuilder::Worker(3).OnNode("node-3"))
      .With(PodBuilder::Worker(4).Deleting().Ended(0, "Completed"))
      .With(PodBuilder::Worker(5).Phase(PodPhase::kFailed))  // evicted, without a container status
      .Node("node-1");
  scene.observed = builder.Build();
  scene.memory.gone = {{.pod_uid = "uid-gone", .epoch = {}}};

  const Plan plan = scene.Make();

  ASSERT_TRUE(plan.order.has_value());
  EXPECT_EQ(plan.order->dead,
            (Strings{"uid-gone", "uid-worker-1", "uid-worker-3", "uid-worker-4"}));
}

TEST(LossPolicy, MembersWithoutAPodAreDead) {
  Scene scene = FourWorkers({});
  scene.Answers(RunningWorld(6));
  scene.launcher->status->workers[5].member = false;

  const Plan plan = scene.Make();

  EXPECT_EQ(plan.order->dead, Strings{"uid-worker-4"});
}

TEST(LossPolicy, WorkersThatFinishedTheJobAreNotCalledDead) {
  const api::TrainingJob job = RunningJob(2);
  Scene scene{.job = job,
              .observed = SceneBuilder(job)
                              .Launcher()
                              .With(PodBuilder::Worker(0).Ended(0, "Completed"))
                              .With(PodBuilder::Worker(1))
                              .Build()};

  EXPECT_TRUE(scene.Make().order->dead.empty());
}

}  // namespace
}  // namespace ringmaster::job
