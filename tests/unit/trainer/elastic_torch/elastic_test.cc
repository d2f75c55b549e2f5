// Tests worlds that change during training. Several ranks run in this process, over shared memory
// or Gloo, and the test is their launcher. In every test, the final parameters must
// equal the parameters of a single rank bit for bit, and the audit of all logs must find no faults.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <list>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/patience.h"
#include "tests/unit/trainer/audited.h"
#include "tests/unit/trainer/black_hole.h"
#include "tests/unit/trainer/elastic_rank.h"
#include "tests/unit/trainer/fake_launcher.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "worker/trainer/numeric/alignment.h"

namespace ringmaster::trainer {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kLast = 30;  // steps of a run
constexpr seconds kTimeout = kRankTimeout;

class ElasticTest : public ::testing::Test {
 protected:
  ~ElasticTest() override { launcher_.Close(); }  // ends the ranks before ranks_ joins them

  ElasticRank& Start(const std::string& name, RankScript script = {}) {
    return ranks_.emplace_back(launcher_, name, folder_.path(), kLast, std::move(script));
  }

  // Waits for the survivors, ends the other ranks, and checks the survivors' states and the audit.
  void ExpectFinished(const FakeLauncher::Names& survivors) {
    const std::vector<float> alone = TrainAlone(kLast);
    int summaries = 0;
    for (ElasticRank& rank : ranks_) {
      const bool survives =
          std::find(survivors.begin(), survivors.end(), rank.name()) != survivors.end();
      if (!survives) continue;
      const Result<RunSummary>& summary = rank.Await();
      ASSERT_TRUE(summary.ok()) << rank.name() << ": " << summary.error().message;
      EXPECT_EQ(summary->steps, kLast);
      EXPECT_EQ(summary->accuracy, 1);
      EXPECT_EQ(rank.state(), alone) << rank.name();
      summaries += rank.summaries();
    }
    EXPECT_EQ(summaries, 1);
    launcher_.Close();
    for (ElasticRank& rank : ranks_) rank.Await();
    ExpectCleanAudit();
  }

  void ExpectCleanAudit() const {
    const audit::Report report = AuditLogsIn(folder_.path(), kLast);
    EXPECT_EQ(audit::ExitCodeOf(report.findings), audit::kExitClean);
    EXPECT_THAT(report.findings.sentences, IsEmpty());
  }

  FakeLauncher launcher_;
  const TemporaryFolder folder_;
  std::list<ElasticRank> ranks_;
};

class ElasticOnTest : public ElasticTest, public ::testing::WithParamInterface<bool> {
 protected:
  ElasticOnTest() { launcher_.SetOneMachine(GetParam()); }
};
std::string NameOfMachines(const ::testing::TestParamInfo<bool>& one) {
  return one.param ? "One" : "Several";
}
INSTANTIATE_TEST_SUITE_P(Machines, ElasticOnTest, ::testing::Bool(), NameOfMachines);

TEST_P(ElasticOnTest, AGradientThatIsNoFiniteNumberStopsTheJobByName) {
  ElasticRank& a = Start("a");
  ElasticRank& b = Start("b", {.not_finite_at = 4});
  launcher_.Form({"a", "b"});

  for (ElasticRank* rank : {&a, &b}) {
    const Result<RunSummary>& summary = rank->Await();
    ASSERT_FALSE(summary.ok());
    EXPECT_EQ(summary.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(summary.error().message,
                HasSubstr("step 4: the gradient of second on rank 1 is NaN or infinite"));
  }
}

TEST_P(ElasticOnTest, AStepThatIsNotFiniteCanBeSkipped) {
  ElasticRank& a = Start("a", {.not_finite_at = 4, .skip_not_finite = true});
  ElasticRank& b = Start("b", {.not_finite_at = 9, .skip_not_finite = true});
  launcher_.Form({"a", "b"});

  for (ElasticRank* rank : {&a, &b}) {
    const Result<RunSummary>& summary = rank->Await();
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    EXPECT_EQ(summary->steps, kLast);
    EXPECT_EQ(summary->skipped_steps, 2);
  }
  EXPECT_EQ(a.state(), b.state());
  EXPECT_NE(a.state(), TrainAlone(kLast));
  EXPECT_TRUE(std::all_of(a.state().begin(), a.state().end(),
                          [](float value) { return std::isfinite(value); }));
  ExpectCleanAudit();
}

TEST_P(ElasticOnTest, AScaledLossThatOverflowsIsScaledLessByAllRanksAndByThoseThatJoin) {
  Gate grow(6);
  Start("a",
        {.at = [&](int64_t step) { grow.Pass(step); }, .not_finite_at = 4, .scale_loss = true});
  Start("b", {.scale_loss = true});
  launcher_.Form({"a", "b"});
  grow.AwaitReached();
  Start("c", {.scale_loss = true});
  launcher_.AwaitWaiting({"c"});
  launcher_.Switch();
  grow.Open();
  launcher_.AwaitBoundary({"a", "b"});
  launcher_.Form({"a", "b", "c"});

  for (ElasticRank& rank : ranks_) {
    const Result<RunSummary>& summary = rank.Await();
    ASSERT_TRUE(summary.ok()) << rank.name() << ": " << summary.error().message;
    EXPECT_EQ(summary->steps, kLast);
    ASSERT_GE(rank.state().size(), 2U);
    EXPECT_EQ(*(rank.state().end() - 2), LossScale::kFirst / 2) << rank.name();
    EXPECT_EQ(rank.state().back(), kLast - 4) << "good steps since then";
    EXPECT_EQ(rank.state(), ranks_.front().state()) << rank.name();
  }
  EXPECT_EQ(ranks_.front().Await()->skipped_steps, 1);
  ExpectCleanAudit();
}

TEST_P(ElasticOnTest, AWorldWithoutFaultsReportsOnlyCommittedSteps) {
  ElasticRank& a = Start("a");
  Start("b");
  launcher_.Form({"a", "b"});

  ExpectFinished({"a", "b"});

  EXPECT_EQ(a.state().size(), 2U * 3 * kAlignedFloats);  // parameters and velocity
  const auto reports = launcher_.reports();
  ASSERT_EQ(reports.size(), static_cast<std::size_t>(kLast));
  for (std::size_t i = 0; i < reports.size(); ++i) {
    EXPECT_EQ(reports[i].second, static_cast<int64_t>(i) + 1);
  }
}

TEST_P(ElasticOnTest, ARankIsLostInAStep) {
  Start("a");
  Start("b");
  Start("c", {.at = [](int64_t step) { DieAt(step, 10); }});
  launcher_.Form({"a", "b", "c"});

  launcher_.AwaitBroken({"a", "b"});
  launcher_.Form({"a", "b"});

  ExpectFinished({"a", "b"});
}

TEST_P(ElasticOnTest, RankZeroIsLostAndTheNextOneContinuesLogAndReports) {
  Start("a", {.at = [](int64_t step) { DieAt(step, 10); }});
  ElasticRank& b = Start("b");
  Start("c");
  launcher_.Form({"a", "b", "c"});

  launcher_.AwaitBroken({"b", "c"});
  launcher_.Form({"b", "c"});

  ExpectFinished({"b", "c"});
  EXPECT_EQ(launcher_.reports().back(), std::make_pair(control::Epoch{1, 2}, kLast));
  EXPECT_EQ(b.logged_steps().front(), 10);
  EXPECT_EQ(b.logged_steps().back(), kLast);
}

TEST_P(ElasticOnTest, AllButOneAreLost) {
  Start("a");
  Start("b", {.at = [](int64_t step) { DieAt(step, 10); }});
  Start("c", {.at = [](int64_t step) { DieAt(step, 10); }});
  launcher_.Form({"a", "b", "c"});

  launcher_.AwaitBroken({"a"});
  launcher_.Form({"a"});

  ExpectFinished({"a"});
}

TEST_P(ElasticOnTest, ASecondRankIsLostWhileTheNextWorldForms) {
  Start("a");
  Start("b", {.at = [](int64_t step) { DieAt(step, 10); }});
  Start("c");
  launcher_.Form({"a", "b", "c"});
  launcher_.AwaitBroken({"a", "c"});

  launcher_.Form({"a", "c", "never comes"});  // a and c wait for the third address
  launcher_.Form({"a", "c"});

  ExpectFinished({"a", "c"});
}

TEST_F(ElasticTest, AMemberThatPublishedItsAddressAndVanishedDelaysNothing) {
  constexpr seconds kShort{8};  // abandoned connections end only after this time
  Gate gate(10);
  launcher_.HoldRelease(true);
  Start("a", {.at = [&](int64_t step) { gate.Pass(step); }, .timeout = kShort});
  Start("b", {.timeout = kShort});
  launcher_.Form({"a", "b"});
  gate.AwaitReached();
  const BlackHole hole;
  launcher_.SetOneMachine(false);
  const auto store = launcher_.Form({"a", "b", "vanished"});
  gate.Open();
  for (const char* rank : {"0", "1"}) {
    const auto theirs =
        store->Get({std::string("gloo/") + rank + "/2"}, steady_clock::now() + kTimeout);
    ASSERT_TRUE(theirs.ok());
    ASSERT_TRUE(store->Set(std::string("gloo/2/") + rank, hole.AddressLike(theirs->front())).ok());
  }

  const auto start = steady_clock::now();
  launcher_.Form({"a", "b"});
  launcher_.AwaitDone({"a", "b"});
  const auto took = steady_clock::now() - start;

  launcher_.HoldRelease(false);
  ExpectFinished({"a", "b"});
  EXPECT_LT(took, kShort / 2);
}

TEST_P(ElasticOnTest, RanksThatWaitedForAMemberInVainNameIt) {
  const seconds soon{Patience()};
  Start("a", {.timeout = soon});
  Start("b", {.timeout = soon});
  launcher_.Form({"a", "never comes", "b"});

  launcher_.AwaitBroken({"a", "b"});

  EXPECT_EQ(launcher_.LostPeerOf("a"), 1);
  EXPECT_EQ(launcher_.LostPeerOf("b"), 1);
}

TEST_P(ElasticOnTest, ASilentRankIsLeftWithinMilliseconds) {
  Gate silence(10);
  std::promise<steady_clock::time_point> resumed;
  int64_t world = 0;
  bool told = false;
  Start("a", {.at =
                  [&](int64_t) {
                    if (world == 2 && !told) resumed.set_value(steady_clock::now());
                    told = world == 2;
                  },
              .entered = [&](const World& entered) { world = entered.epoch.number; }});
  Start("b");
  Start("c", {.at = [&](int64_t step) { silence.Pass(step); }});
  launcher_.Form({"a", "b", "c"});
  silence.AwaitReached();

  const auto abort = steady_clock::now();
  launcher_.Form({"a", "b"});
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(resumed.get_future().get() - abort);

  silence.Open();
  ExpectFinished({"a", "b"});
  RecordProperty("millis_from_abort_to_the_next_step", static_cast<int>(took.count()));
  EXPECT_LT(took, kTimeout / 4);
}

TEST_P(ElasticOnTest, RanksPauseWithTheirStateAndResume) {
  Gate gate(10);
  Start("a", {.at = [&](int64_t step) { gate.Pass(step); }});
  Start("b");
  launcher_.Form({"a", "b"});
  gate.AwaitReached();
  launcher_.Prepare();
  gate.Open();

  launcher_.AwaitWaiting({"a", "b"});
  launcher_.Form({"a", "b"});

  ExpectFinished({"a", "b"});
}

TEST_P(ElasticOnTest, AWorldGrowsAndShrinksAtAStepsBoundary) {
  Gate grow(10);
  Gate shrink(20);
  Start("a", {.at = [&](int64_t step) {
          grow.Pass(step);
          shrink.Pass(step);
        }});
  Start("b");
  launcher_.Form({"a", "b"});
  grow.AwaitReached();
  Start("c");
  launcher_.AwaitWaiting({"c"});
  launcher_.Switch();
  grow.Open();
  const int64_t grown = launcher_.AwaitBoundary({"a", "b"});

  launcher_.Form({"a", "b", "c"});
  shrink.AwaitReached();
  launcher_.Switch();
  shrink.Open();
  const int64_t shrunk = launcher_.AwaitBoundary({"a", "b", "c"});
  launcher_.Form({"a", "c"});

  ExpectFinished({"a", "c"});
  EXPECT_THAT(grown, ::testing::AnyOf(10, 11));
  EXPECT_THAT(shrunk, ::testing::AnyOf(20, 21));
}

TEST_P(ElasticOnTest, ARankThatDidNotSeeTheLastStepTakesItOver) {
  Start("a");
  Start("b", {.fail_reduction_of = 10});  // a applies step 10, b does not
  launcher_.Form({"a", "b"});

  launcher_.AwaitBroken({"a", "b"});
  launcher_.Form({"b", "a"});

  ExpectFinished({"a", "b"});
}

// On GPUs, when a rank aborts, its kernels and the kernels of the other ranks still run to the end.
TEST_P(ElasticOnTest, WhatARankThatGaveUpSentIsNeverApplied) {
  Start("a", {.fail_reduction_of = 10, .sees_rubbish = true, .confirms = true});
  Start("b", {.fail_reduction_of = 10, .confirms = true});
  Start("c", {.fail_reduction_of = 10, .sees_rubbish = true, .confirms = true});
  launcher_.Form({"a", "b", "c"});

  launcher_.AwaitBroken({"a", "b", "c"});
  launcher_.Form({"a", "c", "b"});

  ExpectFinished({"a", "b", "c"});
}

TEST_P(ElasticOnTest, RubbishIsNotTakenForReportsOfOtherRanks) {
  Start("a", {.fail_all_gather = 1, .sees_rubbish = true, .confirms = true});
  Start("b", {.fail_all_gather = 1, .confirms = true});
  launcher_.Form({"a", "b"});

  launcher_.AwaitBroken({"a", "b"});
  launcher_.Form({"a", "b"});

  ExpectFinished({"a", "b"});
}

TEST_P(ElasticOnTest, OtherParametersAtTheSameVersionStopTheJob) {
  Gate gate_a(10);
  Gate gate_b(10);
  ElasticRank& a = Start("a", {.at = [&](int64_t step) { gate_a.Pass(step); }});
  ElasticRank& b = Start("b", {.at = [&](int64_t step) { gate_b.Pass(step); }, .corrupt_at = 10});
  launcher_.Form({"a", "b"});
  gate_a.AwaitReached();
  gate_b.AwaitReached();

  launcher_.Form({"a", "b"});
  gate_a.Open();
  gate_b.Open();

  for (ElasticRank* rank : {&a, &b}) {
    const Result<RunSummary>& summary = rank->Await();
    ASSERT_FALSE(summary.ok());
    EXPECT_EQ(summary.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(summary.error().message,
                HasSubstr("rank 1 has different parameters after the same 9 steps than rank 0"));
  }
}

TEST_P(ElasticOnTest, ALossWhileTheyMeasureIsMeasuredAgain) {
  Start("a");
  Start("b", {.at_evaluation = [] { throw std::runtime_error("killed"); }});
  Start("c");
  launcher_.Form({"a", "b", "c"});

  launcher_.AwaitBroken({"a", "c"});
  launcher_.Form({"a", "c"});

  ExpectFinished({"a", "c"});
}

TEST_P(ElasticOnTest, AWorldThatIsOverAfterTheLastStepFinishesInTheNextOne) {
  launcher_.HoldRelease(true);
  Start("a");
  Start("b");
  launcher_.Form({"a", "b"});
  launcher_.AwaitDone({"a", "b"});
  launcher_.Switch();
  EXPECT_EQ(launcher_.AwaitBoundary({"a", "b"}), kLast);

  Start("c");  // adopts the last step, so it only evaluates
  launcher_.Form({"c", "b", "a"});
  launcher_.AwaitDone({"a", "b", "c"});
  launcher_.Form({"b", "c"});
  launcher_.AwaitDone({"b", "c"});
  launcher_.HoldRelease(false);

  ExpectFinished({"b", "c"});
}

}  // namespace
}  // namespace ringmaster::trainer
