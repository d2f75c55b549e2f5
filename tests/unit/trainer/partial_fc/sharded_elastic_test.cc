// Tests changes of a world whose ranks share the class centres. Uses real sessions over Gloo, as
// elastic_test.cc does. The audit logs prove that nothing is lost: the checksums of the ranks'
// centres after each step add up to the checksum of the table from which the next world starts,
// no matter how the world assembled the table.

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <list>
#include <mutex>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/eventually.h"
#include "tests/unit/trainer/audited.h"
#include "tests/unit/trainer/elastic_rank.h"
#include "tests/unit/trainer/fake_launcher.h"
#include "tests/unit/trainer/partial_fc/head_devices.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "worker/trainer/checkpoint/checkpoint_folder.h"
#include "worker/trainer/workloads/partial_fc.h"

namespace ringmaster::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kShardedLast = 24;  // steps of a run
constexpr int64_t kLongRun = 300;     // enough steps for some checkpoints even on a slow disk
constexpr int64_t kRows = 29;
constexpr int kReplicaEvery = 3;

// A partial FC workload that calls its script's hooks before it computes.
class ScriptedPartialFc final : public Workload {
 public:
  ScriptedPartialFc(RankScript script, int64_t classes, int replica_every, HeadMaker head_device)
      : script_(std::move(script)) {
    partial_fc::HeadOptions head;
    head.dimension = 6;
    head.sampling = {.seed = 1, .rate = 0.4};
    head.margin = {.m2 = 0.2F, .scale = 16};
    head.learning_rate = [](int64_t) { return 0.05; };
    inner_ = MakePartialFc(SyntheticIdentities({.seed = 1,
                                                .classes = classes,
                                                .training = 64,
                                                .held_out = 58,
                                                .shape = {.channels = 1, .side = 16}}),
                           {.seed = 1,
                            .global_batch = kExactBatch,
                            .backbone = "small",
                            .table = {.head = head,
                                      .replica_every = replica_every,
                                      .checksums = true,
                                      .device = head_device()}});
  }

  std::vector<at::Tensor> parameters() override { return inner_->parameters(); }
  ShardedState* sharded() override { return inner_->sharded(); }
  std::string model() const override { return inner_->model(); }
  const DataOrder& order() const override { return inner_->order(); }
  int64_t held_out_size() const override { return inner_->held_out_size(); }
  uint64_t fingerprint() const override { return inner_->fingerprint(); }
  void WarmUp() override { inner_->WarmUp(); }
  void Load(int64_t step, const MicroBatches& parts) override {
    step_ = step;
    inner_->Load(step, parts);
  }
  Result<double> Forward(StepCollectives& others) override {
    if (script_.at) script_.at(step_ + 1);
    Result<double> loss = inner_->Forward(others);
    if (loss.ok() && step_ + 1 == script_.not_finite_at) *loss = std::nan("");
    return loss;
  }
  Result<void> Backward(StepCollectives& others) override { return inner_->Backward(others); }
  Evaluation Evaluate(Share share) override { return inner_->Evaluate(share); }

 private:
  const RankScript script_;
  std::unique_ptr<Workload> inner_;
  int64_t step_ = 0;
};

// Ends ranks at a given step, but only after all other ranks have also reached that step, so that
// every rank has the result of the step before.
class LastMeeting {
 public:
  LastMeeting(int64_t step, int ranks) : step_(step), ranks_(ranks) {}

  void Pass(int64_t step) {
    if (step == step_) Arrive();
  }
  void DieThere(int64_t step) {
    if (step != step_) return;
    Arrive();
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, FakeLauncher::kLimit, [&] { return arrived_ >= ranks_; }));
    throw std::runtime_error("killed");
  }

 private:
  void Arrive() {
    const std::lock_guard lock(mutex_);
    ++arrived_;
    changed_.notify_all();
  }

  const int64_t step_;
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
};

// One job: its launcher, its ranks and their logs.
class ShardedRun {
 public:
  explicit ShardedRun(int64_t steps = kShardedLast, int64_t classes = kRows,
                      HeadMaker head_device = &partial_fc::MakeHostHeadDevice,
                      int replica_every = kReplicaEvery)
      : steps_(steps), classes_(classes), replica_every_(replica_every), head_device_(head_device) {
    fs::create_directory(logs_);
  }
  explicit ShardedRun(HeadMaker head_device) : ShardedRun(kShardedLast, kRows, head_device) {}
  ~ShardedRun() { launcher_.Close(); }  // ends the ranks before ranks_ joins them

  FakeLauncher& launcher() { return launcher_; }
  std::string checkpoints() const { return folder_.path() + "/checkpoints"; }

  ElasticRank& Start(const std::string& name, RankScript script = {}) {
    script.workload = [this](const RankScript& with) {
      return std::make_unique<ScriptedPartialFc>(with, classes_, replica_every_, head_device_);
    };
    return ranks_.emplace_back(launcher_, name, logs_, steps_, std::move(script));
  }

  // Waits until the survivors end, assembles the table from their shares, and audits the logs.
  audit::Report Finish(const FakeLauncher::Names& survivors) {
    table_.assign(static_cast<std::size_t>(classes_) * kRowFloats, std::nanf(""));
    std::size_t floats = 0;
    for (ElasticRank& rank : ranks_) {
      if (std::ranges::find(survivors, rank.name()) == survivors.end()) continue;
      const Result<RunSummary>& summary = rank.Await();
      EXPECT_TRUE(summary.ok()) << rank.name() << ": " << summary.error().message;
      if (!summary.ok()) continue;
      EXPECT_EQ(summary->steps, steps_);
      std::ranges::copy(rank.shard(),
                        table_.begin() + rank.first_row() * static_cast<int64_t>(kRowFloats));
      floats += rank.shard().size();
    }
    EXPECT_EQ(floats, table_.size()) << "every row has one owner";
    EXPECT_TRUE(std::ranges::all_of(table_, [](float value) { return std::isfinite(value); }));
    launcher_.Close();
    for (ElasticRank& rank : ranks_) rank.Await();
    return AuditLogsIn(logs_, steps_);
  }
  void ExpectClean(const FakeLauncher::Names& survivors) {
    const audit::Report report = Finish(survivors);
    EXPECT_EQ(audit::ExitCodeOf(report.findings), audit::kExitClean);
    EXPECT_THAT(report.findings.sentences, IsEmpty());
    // Without all shares of every step in the logs, the audit would prove nothing.
    for (std::size_t step = 0; step < report.states.size(); ++step) {
      EXPECT_TRUE(report.states[step].has_value()) << "after step " << step;
    }
  }

  // Returns the assembled table. REQUIRES: Finish() was called.
  const std::vector<float>& table() const { return table_; }
  std::list<ElasticRank>& ranks() { return ranks_; }

 private:
  static constexpr std::size_t kRowFloats = 12;

  const int64_t steps_;
  const int64_t classes_;
  const int replica_every_;
  const HeadMaker head_device_;
  FakeLauncher launcher_;
  const TemporaryFolder folder_;
  const std::string logs_ = folder_.path() + "/logs";
  std::list<ElasticRank> ranks_;
  std::vector<float> table_;
};

class ShardedElasticOn : public testing::TestWithParam<HeadMaker> {};
INSTANTIATE_TEST_SUITE_P(Device, ShardedElasticOn, kHeadDevices, NameOfHeadDevice);

TEST_P(ShardedElasticOn, ARankIsLostAndItsReplicaPeerBringsItsRowsUp) {
  ShardedRun run(GetParam());
  LastMeeting end(12, 3);
  for (const char* name : {"a", "b"}) run.Start(name, {.at = [&](int64_t s) { end.Pass(s); }});
  run.Start("c", {.at = [&](int64_t s) { end.DieThere(s); }});
  run.launcher().Form({"a", "b", "c"});

  run.launcher().AwaitBroken({"a", "b"});
  run.launcher().Form({"a", "b"});

  run.ExpectClean({"a", "b"});
}

TEST(ShardedElastic, ALossInTheFirstStepsIsMadeGoodFromTheSeed) {
  ShardedRun run;
  LastMeeting end(2, 3);
  for (const char* name : {"a", "c"}) run.Start(name, {.at = [&](int64_t s) { end.Pass(s); }});
  run.Start("b", {.at = [&](int64_t s) { end.DieThere(s); }});
  run.launcher().Form({"a", "b", "c"});

  run.launcher().AwaitBroken({"a", "c"});
  run.launcher().Form({"a", "c"});

  run.ExpectClean({"a", "c"});
}

TEST(ShardedElastic, AnExcludedStepIsAlsoExcludedFromALostRanksRows) {
  ShardedRun run;
  LastMeeting end(14, 3);
  run.Start("a", {.at = [&](int64_t s) { end.Pass(s); }, .skip_not_finite = true});
  run.Start("b",
            {.at = [&](int64_t s) { end.Pass(s); }, .not_finite_at = 12, .skip_not_finite = true});
  run.Start("c", {.at = [&](int64_t s) { end.DieThere(s); }, .skip_not_finite = true});
  run.launcher().Form({"a", "b", "c"});

  run.launcher().AwaitBroken({"a", "b"});
  run.launcher().Form({"a", "b"});

  run.ExpectClean({"a", "b"});
  EXPECT_EQ(run.ranks().front().Await()->skipped_steps, 1);
}

// Runs a, b and c; c dies in step 11, and b may have missed step 10. Returns the final table.
std::vector<float> TableWhenB(bool misses_the_end_of_step_10) {
  ShardedRun run;
  LastMeeting end(11, misses_the_end_of_step_10 ? 2 : 3);
  run.Start("a", {.at = [&](int64_t s) { end.Pass(s); }});
  run.Start("b", {.at = [&](int64_t s) { end.Pass(s); },
                  .fail_reduction_of = misses_the_end_of_step_10 ? 10 : 0,
                  .reductions_before = 2});
  run.Start("c", {.at = [&](int64_t s) { end.DieThere(s); }});
  run.launcher().Form({"a", "b", "c"});
  run.launcher().AwaitBroken({"a", "b"});
  run.launcher().Form({"b", "a"});
  const audit::Report report = run.Finish({"a", "b"});
  EXPECT_EQ(audit::ExitCodeOf(report.findings), audit::kExitClean);
  return run.table();
}

TEST(ShardedElastic, ARankThatDidNotSeeTheLastStepRollsForwardToTheSameBits) {
  const std::vector<float> seen = TableWhenB(false);

  EXPECT_EQ(TableWhenB(true), seen);
}

TEST(ShardedElastic, AWorldGrowsAndShrinksAtAStepsBoundary) {
  ShardedRun run;
  Gate grow(8);
  Gate shrink(16);
  run.Start("a", {.at = [&](int64_t step) {
              grow.Pass(step);
              shrink.Pass(step);
            }});
  run.Start("b");
  run.launcher().Form({"a", "b"});
  grow.AwaitReached();
  run.Start("c");
  run.launcher().AwaitWaiting({"c"});
  run.launcher().Switch();
  grow.Open();
  run.launcher().AwaitBoundary({"a", "b"});

  run.launcher().Form({"a", "b", "c"});
  shrink.AwaitReached();
  run.launcher().Switch();
  shrink.Open();
  run.launcher().AwaitBoundary({"a", "b", "c"});
  run.launcher().Form({"a", "c"});

  run.ExpectClean({"a", "c"});
}

// b dies before the grown world has exchanged copies; a still has the rows that it gave to b.
TEST_P(ShardedElasticOn, ARankLostBeforeAGrownWorldHasNewCopiesCostsNothing) {
  constexpr int kFiveExchanges = 20;
  ShardedRun run(kShardedLast, kRows, GetParam(), kFiveExchanges);
  Gate grow(8);
  LastMeeting end(11, 3);
  run.Start("a", {.at = [&](int64_t s) { grow.Pass(s), end.Pass(s); }});
  run.Start("b", {.at = [&](int64_t s) { end.DieThere(s); }});
  run.launcher().Form({"a", "b"});
  grow.AwaitReached();
  run.Start("c", {.at = [&](int64_t s) { end.Pass(s); }});
  run.launcher().AwaitWaiting({"c"});
  run.launcher().Switch();
  grow.Open();
  run.launcher().AwaitBoundary({"a", "b"});

  run.launcher().Form({"a", "b", "c"});
  run.launcher().AwaitBroken({"a", "c"});
  run.launcher().Form({"a", "c"});

  run.ExpectClean({"a", "c"});
}

TEST_P(ShardedElasticOn, ThoseWhoLeaveTogetherHandTheirRowsOver) {
  ShardedRun run(GetParam());
  Gate shrink(9);
  run.Start("a", {.at = [&](int64_t step) { shrink.Pass(step); }});
  for (const char* name : {"b", "c", "d"}) run.Start(name);
  run.launcher().Form({"a", "b", "c", "d"});
  shrink.AwaitReached();

  run.launcher().Switch({"c", "d"});  // neighbours: d has the only copy of c's rows
  shrink.Open();
  run.launcher().AwaitBoundary({"a", "b", "c", "d"});
  run.launcher().Form({"a", "b"});

  run.ExpectClean({"a", "b"});
}

// Runs a, b, c and d: c dies in step 10, and the next world breaks for b as `script` says. Returns
// the worlds that a and b have entered.
struct Entered {
  std::vector<int64_t> a, b;
};
Entered BreakTheNextWorld(RankScript script) {
  ShardedRun run;
  Entered entered;
  LastMeeting end(10, 4);
  const auto pass = [&](int64_t s) { end.Pass(s); };
  run.Start("a", {.at = pass,
                  .entered = [&](const World& world) { entered.a.push_back(world.epoch.number); }});
  script.at = pass;
  script.entered = [&](const World& world) { entered.b.push_back(world.epoch.number); };
  run.Start("b", std::move(script));
  run.Start("c", {.at = [&](int64_t s) { end.DieThere(s); }});
  run.Start("d", {.at = pass});
  run.launcher().Form({"a", "b", "c", "d"});
  run.launcher().AwaitBroken({"a", "b", "d"});

  run.launcher().Form({"a", "b", "d"});
  run.launcher().AwaitBroken({"a", "b", "d"});
  run.launcher().Form({"d", "b", "a"});

  run.ExpectClean({"a", "b", "d"});
  return entered;
}

TEST(ShardedElastic, AWorldThatBreaksWhileRowsMoveLosesNothing) {
  // The tenth all-to-all moves rows; the first nine exchange copies.
  const Entered entered = BreakTheNextWorld({.fail_all_to_all = 10});

  EXPECT_EQ(entered.a, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(entered.b, (std::vector<int64_t>{1, 3}));
}

TEST(ShardedElastic, AWorldThatSomeHaveEnteredAndOthersNotLosesNothing) {
  // b makes 13 all-gathers in the first world: three at its start, and one in each of ten steps. In
  // the second world, the sixth and last follows the moves of rows; others have entered by then.
  const Entered entered = BreakTheNextWorld({.fail_all_gather = 19});

  EXPECT_EQ(entered.a, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(entered.b, (std::vector<int64_t>{1, 3}));
}

// c aborts in an all-gather, whose number varies; as on GPUs, a and b get garbage and discard it.
class ShardedElasticOnGpus : public ::testing::TestWithParam<int64_t> {};

TEST_P(ShardedElasticOnGpus, RubbishOfARankThatGivesUpLosesNothing) {
  ShardedRun run;
  for (const char* name : {"a", "b"}) {
    run.Start(name, {.fail_all_gather = GetParam(), .sees_rubbish = true, .confirms = true});
  }
  run.Start("c", {.fail_all_gather = GetParam(), .confirms = true});
  run.launcher().Form({"a", "b", "c"});
  run.launcher().AwaitBroken({"a", "b", "c"});
  run.launcher().Form({"a", "b"});

  run.ExpectClean({"a", "b"});
}

// The first all-gathers belong to the entry into the first world, the others to steps.
INSTANTIATE_TEST_SUITE_P(Gatherings, ShardedElasticOnGpus,
                         ::testing::Range(int64_t{1}, int64_t{8}));

// c aborts an exchange of copies, so that a and b get garbage. c dies soon afterwards.
TEST(ShardedElastic, CopiesOfAStepThatDidNotHappenAreNotKept) {
  ShardedRun run;
  run.Start("a", {.fail_all_to_all = 10, .sees_rubbish = true, .confirms = true});
  run.Start("b", {.fail_all_to_all = 10, .sees_rubbish = true, .confirms = true});
  run.Start("c",
            {.at = [](int64_t step) { DieAt(step, 11); }, .fail_all_to_all = 10, .confirms = true});
  run.launcher().Form({"a", "b", "c"});
  run.launcher().AwaitBroken({"a", "b", "c"});
  run.launcher().Form({"a", "b", "c"});
  run.launcher().AwaitBroken({"a", "b"});
  run.launcher().Form({"b", "a"});

  run.ExpectClean({"a", "b"});
}

TEST_P(ShardedElasticOn, LossesOneAfterTheOtherCostNothing) {
  ShardedRun run(GetParam());
  LastMeeting first(7, 4);
  LastMeeting second(14, 3);
  LastMeeting third(20, 2);
  run.Start("a", {.at = [&](int64_t s) {
              first.Pass(s);
              second.Pass(s);
              third.Pass(s);
            }});
  run.Start("b", {.at = [&](int64_t s) { first.Pass(s), second.Pass(s), third.DieThere(s); }});
  run.Start("c", {.at = [&](int64_t s) { first.Pass(s), second.DieThere(s); }});
  run.Start("d", {.at = [&](int64_t s) { first.DieThere(s); }});
  run.launcher().Form({"a", "b", "c", "d"});
  run.launcher().AwaitBroken({"a", "b", "c"});
  run.launcher().Form({"a", "b", "c"});
  run.launcher().AwaitBroken({"a", "b"});
  run.launcher().Form({"a", "b"});
  run.launcher().AwaitBroken({"a"});
  run.launcher().Form({"a"});

  run.ExpectClean({"a"});
}

TEST(ShardedElastic, AnOwnerAndItsReplicaPeerLostTogetherWithoutACheckpointEndTheJob) {
  ShardedRun run;
  LastMeeting end(12, 3);
  ElasticRank& a = run.Start("a", {.at = [&](int64_t s) { end.Pass(s); }});
  for (const char* name : {"b", "c"}) run.Start(name, {.at = [&](int64_t s) { end.DieThere(s); }});
  run.launcher().Form({"a", "b", "c"});
  run.launcher().AwaitBroken({"a"});
  run.launcher().Form({"a"});

  const Result<RunSummary>& summary = a.Await();

  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(summary.error().message,
              HasSubstr("rows 9 to 18 of the sharded state after step 11 were lost together with "
                        "their copies, and no checkpoint exists"));
}

// Ranks that die together as soon as a checkpoint is complete.
class DeathAfterACheckpoint {
 public:
  DeathAfterACheckpoint(std::string checkpoints, int ranks)
      : checkpoints_(std::move(checkpoints)), ranks_(ranks) {}

  // Ranks are at most one step apart, so each rank knows in time in which step it dies.
  void Pass(int64_t step) {
    if (step >= 5 && death_ == 0 && Complete()) {
      int64_t unset = 0;
      death_.compare_exchange_strong(unset, step + 2);
    }
    if (step == death_) ++arrived_;
  }
  void DieThere(int64_t step) {
    Pass(step);
    if (step != death_) return;
    EXPECT_TRUE(Eventually([&] { return arrived_ >= ranks_; }));
    throw std::runtime_error("killed");
  }

 private:
  bool Complete() const {
    std::error_code none_yet;
    for (const auto& entry : fs::directory_iterator(checkpoints_, none_yet)) {
      // A checkpoint that is still being written may have DONE, but not its final name.
      const bool named = std::isdigit(entry.path().filename().native().front()) != 0;
      if (named && fs::exists(entry.path() / "DONE")) return true;
    }
    return false;
  }

  const std::string checkpoints_;
  const int ranks_;
  std::atomic<int64_t> death_ = 0;
  std::atomic<int> arrived_ = 0;
};

TEST(ShardedElastic, AnOwnerAndItsReplicaPeerLostTogetherTakeTrainingBackToTheNewestCheckpoint) {
  ShardedRun run(kLongRun);
  DeathAfterACheckpoint end(run.checkpoints(), 3);
  run.Start("a", {.at = [&](int64_t s) { end.Pass(s); }, .checkpoints = run.checkpoints()});
  for (const char* name : {"b", "c"}) {
    run.Start(name, {.at = [&](int64_t s) { end.DieThere(s); }, .checkpoints = run.checkpoints()});
  }
  run.launcher().Form({"a", "b", "c"});
  run.launcher().AwaitBroken({"a"});
  run.launcher().Form({"a"});

  const audit::Report report = run.Finish({"a"});

  EXPECT_EQ(audit::ExitCodeOf(report.findings), audit::kExitRolledBack);
  EXPECT_GT(report.findings.rolled_back, 0);
  EXPECT_EQ(report.findings.disagreeing, 0) << "the rows are those of the checkpoint's step";
}

TEST(ShardedElastic, AWorldOfAnotherSizeResumesFromACheckpoint) {
  ShardedRun run(kLongRun);
  DeathAfterACheckpoint end(run.checkpoints(), 3);
  for (const char* name : {"a", "b", "c"}) {
    run.Start(name, {.at = [&](int64_t s) { end.DieThere(s); }, .checkpoints = run.checkpoints()});
  }
  run.launcher().Form({"a", "b", "c"});
  for (ElasticRank& rank : run.ranks()) {
    EXPECT_FALSE(rank.Await().ok());
  }
  for (const char* name : {"d", "e"}) run.Start(name, {.checkpoints = run.checkpoints()});
  run.launcher().Form({"d", "e"});

  const audit::Report report = run.Finish({"d", "e"});

  EXPECT_EQ(audit::ExitCodeOf(report.findings), audit::kExitRolledBack);
  EXPECT_EQ(report.findings.disagreeing, 0);
  EXPECT_TRUE(fs::exists(run.checkpoints() + "/1.2-" + std::to_string(kLongRun) + "/part-1"))
      << "the last step is a checkpoint, with a part of each rank";
}

// Two ranks resume from another job's checkpoint, which three ranks wrote. They first write it as a
// checkpoint of their job, with the rows of all parts distributed over two ranks.
TEST(ShardedElastic, AWorldOfAnotherSizeResumesFromAnotherJobsCheckpoint) {
  const CheckpointPlace first{.volume = "", .ns = "team", .name = "faces", .uid = "uid-1"};
  CheckpointPlace second{.volume = "", .ns = "team", .name = "more-faces", .uid = "uid-2"};
  second.from_job = "faces";
  const auto folder = [](const ShardedRun& run, const CheckpointPlace& place) {
    return run.checkpoints() + "/team/" + place.name + "/" + place.uid;
  };
  ShardedRun before;  // both jobs use its folder as their volume
  for (const char* name : {"a", "b", "c"}) {
    before.Start(name, {.checkpoints = before.checkpoints(), .place = first});
  }
  before.launcher().Form({"a", "b", "c"});
  before.ExpectClean({"a", "b", "c"});
  const std::string last = "/1.1-" + std::to_string(kShardedLast);
  ASSERT_TRUE(fs::exists(folder(before, first) + last + "/part-2"));

  ShardedRun run(2 * kShardedLast);
  std::array<std::atomic<int64_t>, 2> began_at{};
  std::atomic<bool> kept_first = false;
  for (int rank : {0, 1}) {
    run.Start(
        rank == 0 ? "d" : "e",
        {.at =
             [&, rank](int64_t s) {
               int64_t unset = 0;
               if (!began_at[static_cast<std::size_t>(rank)].compare_exchange_strong(unset, s)) {
                 return;
               }
               if (rank == 0) {
                 kept_first = fs::exists(folder(before, second) + last + "/DONE") &&
                              fs::exists(folder(before, second) + last + "/part-1") &&
                              !fs::exists(folder(before, second) + last + "/part-2");
               }
             },
         .checkpoints = before.checkpoints(),
         .place = second});
  }
  run.launcher().Form({"d", "e"});
  const audit::Report report = run.Finish({"d", "e"});

  EXPECT_EQ(began_at[0], kShardedLast + 1);
  EXPECT_EQ(began_at[1], kShardedLast + 1);
  EXPECT_TRUE(kept_first) << "with a part of each of its own ranks";
  EXPECT_EQ(report.findings.disagreeing, 0);
  ASSERT_TRUE(run.launcher().beginning().has_value());
  EXPECT_THAT(run.launcher().beginning()->text, HasSubstr("team/faces/uid-1" + last));

  // A job with no steps left to train has exactly the rows of the checkpoint.
  ShardedRun still;
  CheckpointPlace third = second;
  third.name = "same-faces";
  third.uid = "uid-3";
  for (const char* name : {"f", "g"}) {
    still.Start(name, {.checkpoints = before.checkpoints(), .place = third});
  }
  still.launcher().Form({"f", "g"});
  still.Finish({"f", "g"});
  EXPECT_THAT(still.table(), ElementsAreArray(before.table()));
}

void FlipTheLastBitOf(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(-1, std::ios::end).put(byte);
}

TEST(ShardedElastic, ACheckpointWithADamagedPartIsPassedOverForTheOneBefore) {
  ShardedRun run(kLongRun);
  for (const char* name : {"a", "b"}) run.Start(name, {.checkpoints = run.checkpoints()});
  run.launcher().Form({"a", "b"});
  for (ElasticRank& rank : run.ranks()) ASSERT_TRUE(rank.Await().ok());
  const CheckpointFolder folder(run.checkpoints());
  const Result<std::vector<StateVersion>> kept = folder.Complete();
  ASSERT_TRUE(kept.ok());
  ASSERT_GE(kept->size(), 2U);
  FlipTheLastBitOf(folder.PathOf(kept->at(0)) + "/part-1");
  const int64_t before = kept->at(1).step;
  std::array<int64_t, 2> resumed_at{};
  run.Start("c", {.at =
                      [&](int64_t s) {
                        if (resumed_at[0] == 0) resumed_at[0] = s;
                      },
                  .checkpoints = run.checkpoints()});
  run.Start("d", {.at =
                      [&](int64_t s) {
                        if (resumed_at[1] == 0) resumed_at[1] = s;
                      },
                  .checkpoints = run.checkpoints()});

  run.launcher().Form({"c", "d"});
  const audit::Report report = run.Finish({"c", "d"});

  EXPECT_EQ(resumed_at[0], before + 1);
  EXPECT_EQ(resumed_at[1], before + 1);
  EXPECT_EQ(report.findings.disagreeing, 0) << "the rows are those of the checkpoint's step";
}

TEST(ShardedElastic, WithoutAnotherCheckpointADamagedPartEndsTheJob) {
  ShardedRun run;
  for (const char* name : {"a", "b"}) run.Start(name, {.checkpoints = run.checkpoints()});
  run.launcher().Form({"a", "b"});
  for (ElasticRank& rank : run.ranks()) ASSERT_TRUE(rank.Await().ok());
  const CheckpointFolder folder(run.checkpoints());
  const Result<std::vector<StateVersion>> kept = folder.Complete();
  ASSERT_TRUE(kept.ok());
  for (const StateVersion& version : *kept) {
    FlipTheLastBitOf(folder.PathOf(version) + "/part-0");
  }
  ElasticRank& c = run.Start("c", {.checkpoints = run.checkpoints()});
  run.launcher().Form({"c"});

  const Result<RunSummary>& summary = c.Await();

  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(summary.error().message, HasSubstr("complete checkpoints"));
  EXPECT_THAT(summary.error().message, HasSubstr("rows 0 to 28 (damaged in the checkpoint)"));
}

TEST(ShardedElastic, MoreRanksThanClassesAreRefused) {
  ShardedRun run(kShardedLast, /*classes=*/2);
  for (const char* name : {"a", "b", "c"}) run.Start(name);
  run.launcher().Form({"a", "b", "c"});

  for (ElasticRank& rank : run.ranks()) {
    const Result<RunSummary>& summary = rank.Await();
    ASSERT_FALSE(summary.ok());
    EXPECT_EQ(summary.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(summary.error().message, HasSubstr("a world of 3 ranks cannot share 2 classes"));
  }
}

}  // namespace
}  // namespace ringmaster::trainer
