#include "worker/launcher/model/worker_table.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ringmaster::launcher
