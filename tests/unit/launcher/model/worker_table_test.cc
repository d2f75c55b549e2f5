#include "worker/launcher/model/worker_table.h"

#include <gtest/gtest.h>

#include "worker/launcher/model/change_progress.h"
#include "worker/launcher/model/current_world.h"

namespace ringmaster::launcher {
namespace {

using namespace std::chrono_literals;

constexpr Clock::Time kNow{1h};

Worker& Connected(WorkerTable& table, const std::string& pod_uid, ConnectionId connection) {
  Worker& worker = table.Entry(pod_uid);
  worker.hello.pod_uid = pod_uid;
  table.Connect(worker, connection);
  return worker;
}

TEST(WorkerTable, AWorkerHasOneConnection) {
  WorkerTable table;
  Worker& worker = Connected(table, "a", 1);
  worker.ready.emplace();

  EXPECT_EQ(table.ByConnection(1), &worker);
  table.Connect(worker, 2);
  EXPECT_EQ(table.ByConnection(1), nullptr);
  EXPECT_EQ(table.ByConnection(2), &worker);
  table.Disconnect(kNow, worker);

  EXPECT_EQ(table.ByConnection(2), nullptr);
  EXPECT_TRUE(table.connections().empty());
  EXPECT_FALSE(worker.connection);
  EXPECT_FALSE(worker.ready);
  EXPECT_EQ(worker.disconnected_at, kNow);
  EXPECT_EQ(table.Find("a"), &worker);
  EXPECT_EQ(table.Find("b"), nullptr);
}

TEST(WorkerTable, ACopyIsItsOwn) {
  WorkerTable table;
  Connected(table, "a", 1);
  WorkerTable copy = table;

  copy.ByConnection(1)->Fence();

  EXPECT_TRUE(copy.At("a").Fenced());
  EXPECT_FALSE(table.At("a").Fenced());
}

TEST(Worker, FencingRemembersSilenceAndDeathIsFinal) {
  struct {
    Standing before;
    Standing after;
    bool silent;
  } const cases[] = {
      {Standing::kTrusted, Standing::kFenced, false},
      {Standing::kSilent, Standing::kFencedInSilence, true},
      {Standing::kFenced, Standing::kFenced, false},
      {Standing::kFencedInSilence, Standing::kFencedInSilence, true},
      {Standing::kDead, Standing::kDead, false},
  };
  for (const auto& c : cases) {
    Worker worker;
    worker.standing = c.before;
    EXPECT_EQ(worker.Trusted(), c.before == Standing::kTrusted);
    worker.Fence();
    EXPECT_EQ(worker.standing, c.after);
    EXPECT_TRUE(worker.Fenced());
    EXPECT_EQ(worker.Silent(), c.silent);
    EXPECT_EQ(worker.Dead(), c.before == Standing::kDead);
  }
}

TEST(Worker, IsReadyWithAConnectionWithoutFaultsAndWhileItStays) {
  Worker ready;
  ready.connection = 1;
  ready.ready.emplace();
  EXPECT_TRUE(ready.IsReady());

  Worker faulty = ready;
  faulty.ready->faults.push_back({"disk", "full"});
  Worker leaving = ready;
  leaving.leaving = true;
  Worker fenced = ready;
  fenced.Fence();
  Worker silent = ready;
  silent.standing = Standing::kSilent;
  Worker gone = ready;
  gone.connection.reset();

  for (const Worker* worker : {&faulty, &leaving, &fenced, &gone}) EXPECT_FALSE(worker->IsReady());
  EXPECT_TRUE(silent.IsReady());
}

TEST(Worker, FillsUntilItIsReady) {
  Worker filling;
  filling.connection = 1;
  filling.filling.emplace();
  EXPECT_TRUE(filling.IsFilling());

  Worker ready = filling;
  ready.ready.emplace();
  Worker leaving = filling;
  leaving.leaving = true;
  Worker fenced = filling;
  fenced.Fence();
  Worker gone = filling;
  gone.connection.reset();

  for (const Worker* worker : {&ready, &leaving, &fenced, &gone}) EXPECT_FALSE(worker->IsFilling());
}

TEST(CurrentWorld, KnowsWhoRunsWhere) {
  CurrentWorld world({1, 2}, {{"a", "pod-a", "", "", 0, "s", 0},
                              {"a", "pod-a", "", "", 1, "", 1},
                              {"b", "pod-b", "", "", 0, "s", 2}});

  EXPECT_EQ(world.size(), 3);
  EXPECT_EQ(world.epoch(), (control::Epoch{1, 2}));
  EXPECT_EQ(world.pods(), (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(world.RanksOf("a"), (std::vector<int>{0, 1}));
  EXPECT_TRUE(world.RanksOf("c").empty());
  EXPECT_TRUE(world.Contains("b"));
  EXPECT_FALSE(world.Contains("c"));
  EXPECT_EQ(world.At("a", 1)->rank, 1);
  EXPECT_EQ(world.At("b", 1), nullptr);
  EXPECT_TRUE(world.RunsIn("a", 0));
  EXPECT_TRUE(world.RunsIn("b", 2));
  for (const int rank : {-1, 0, 3}) EXPECT_FALSE(world.RunsIn("b", rank)) << rank;
  world.Load(1, "t");
  EXPECT_EQ(world.At("a", 1)->start, "t");
}

TEST(ChangeProgress, AllAreAtTheBoundaryWhenAllSaySoOrOneHasForLong) {
  ChangeProgress change;
  EXPECT_FALSE(change.AllAtBoundary(kNow + 1h, {0, 1, 2}, 3, 100ms)) << "nobody was asked to stop";

  change.ReachBoundary(kNow, 0);
  EXPECT_FALSE(change.AllAtBoundary(kNow, {}, 3, 100ms));
  EXPECT_FALSE(change.AllAtBoundary(kNow + 100ms, {}, 3, 100ms));
  EXPECT_TRUE(change.AllAtBoundary(kNow + 101ms, {}, 3, 100ms));
  EXPECT_FALSE(change.EveryoneAtBoundary({0, 1}, 3)) << "rank 0 counts once";
  EXPECT_TRUE(change.AllAtBoundary(kNow, {1, 2}, 3, 100ms)) << "the others are done";
  change.ReachBoundary(kNow + 50ms, 1);
  EXPECT_TRUE(change.AllAtBoundary(kNow + 101ms, {}, 3, 100ms)) << "since the first";
}

TEST(ChangeProgress, ARanksOwnWordCountsAboveWhatOthersSee) {
  ChangeProgress change;

  change.BreakUnlessSaid(kNow, {{1, 1}, 0, 1, "seen"});
  change.Break(kNow + 1s, {{1, 1}, 0, 2, "said"});
  change.BreakUnlessSaid(kNow + 2s, {{1, 1}, 0, 3, "seen"});

  EXPECT_EQ(change.BrokenPeers(), (std::map<int, int>{{0, 2}}));
  EXPECT_EQ(*change.first_broken_at, kNow);
}

}  // namespace
}  // namespace ringmaster::launcher
