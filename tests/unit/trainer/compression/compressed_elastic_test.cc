// Tests worlds that change while training with compressed gradients. With the 16-bit format, whose
// sums are exact, the result must be that of a single rank. With the 8-bit format, whose residuals
// are part of the state, it must be that of a replay of the same memberships without the faults.

#include <fstream>
#include <list>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/audited.h"
#include "tests/unit/trainer/elastic_rank.h"
#include "tests/unit/trainer/fake_launcher.h"
#include "tests/unit/trainer/memory_store.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "worker/audit/compare.h"
#include "worker/trainer/world_sources/static/replay_membership.h"

namespace ringmaster::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kCompressedSteps = 30;

audit::Report ReportOf(const std::string& folder) { return AuditLogsIn(folder, kCompressedSteps); }

class CompressedElasticTest : public ::testing::Test {
 protected:
  ~CompressedElasticTest() override { launcher_.Close(); }  // ends the ranks before ranks_ joins

  ElasticRank& Start(const std::string& name, RankScript script = {}) {
    script.compression = compression_;
    return ranks_.emplace_back(launcher_, name, folder_.path(), kCompressedSteps,
                               std::move(script));
  }

  // Waits for all ranks, and expects that the survivors have the same state.
  void Finish(const FakeLauncher::Names& survivors) {
    for (ElasticRank& rank : ranks_) {
      if (std::ranges::find(survivors, rank.name()) == survivors.end()) continue;
      const Result<RunSummary>& summary = rank.Await();
      ASSERT_TRUE(summary.ok()) << rank.name() << ": " << summary.error().message;
      state_ = rank.state();
    }
    launcher_.Close();
    for (ElasticRank& rank : ranks_) {
      rank.Await();
      if (std::ranges::find(survivors, rank.name()) == survivors.end()) continue;
      EXPECT_EQ(rank.state(), state_) << rank.name();
    }
    const audit::Report report = ReportOf(folder_.path());
    EXPECT_EQ(audit::ExitCodeOf(report.findings), audit::kExitClean);
    EXPECT_THAT(report.findings.sentences, IsEmpty());
  }

  // Replays the job without faults, and expects the same parameters after every step.
  void ExpectReplayed() {
    EXPECT_NE(state_, TrainAlone(kCompressedSteps)) << "nothing was owed";
    const audit::Report job = ReportOf(folder_.path());
    const auto schedule = ParseMembershipSchedule(audit::ScheduleText(job), "schedule");
    ASSERT_TRUE(schedule.ok()) << schedule.error().message;
    const TemporaryFolder folder;
    const auto store = std::make_shared<MemoryStore>();
    std::list<ElasticRank> members;
    for (std::size_t i = 0; i < schedule->members.size(); ++i) {
      members.emplace_back(
          MakeReplayMembership(*schedule, {.member = i, .job_steps = kCompressedSteps}, store),
          "member-" + std::to_string(i), folder.path(), kCompressedSteps,
          RankScript{.compression = compression_});
    }
    for (ElasticRank& member : members) {
      const Result<RunSummary>& summary = member.Await();
      EXPECT_TRUE(summary.ok() || member.end() == SessionEnd::kDone) << summary.error().message;
    }
    const audit::Findings found = audit::Compare(job, ReportOf(folder.path()));
    EXPECT_THAT(found.sentences, IsEmpty());
  }

  std::string AuditOf(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_.path() + "/" + name + "-0-1.jsonl").rdbuf();
    return text.str();
  }

  Compression compression_ = Compression::kFloat8E5M2;  // too coarse to represent the sums exactly
  FakeLauncher launcher_;
  const TemporaryFolder folder_;
  std::list<ElasticRank> ranks_;
  std::vector<float> state_;
};

TEST_F(CompressedElasticTest, SumsThatTheFormatHoldsAreThoseOfOneRankAlone) {
  compression_ = Compression::kFloat16;
  Start("a");
  Start("b");
  Start("c", {.at = [](int64_t step) { DieAt(step, 10); }});
  launcher_.Form({"a", "b", "c"});

  launcher_.AwaitBroken({"a", "b"});
  launcher_.Form({"a", "b"});

  Finish({"a", "b"});
  EXPECT_EQ(state_, TrainAlone(kCompressedSteps));
}

TEST_F(CompressedElasticTest, ALostRankTakesWhatItOwedAndTheOthersKeepTheirs) {
  Start("a");
  Start("b", {.at = [](int64_t step) { DieAt(step, 10); }});
  Start("c");
  launcher_.Form({"a", "b", "c"});

  launcher_.AwaitBroken({"a", "c"});
  launcher_.Form({"a", "c"});

  Finish({"a", "c"});
  EXPECT_THAT(AuditOf("a"), HasSubstr(R"("residuals":"none")"));
  EXPECT_THAT(AuditOf("a"), HasSubstr(R"("residuals":"kept")"));
  ExpectReplayed();
}

TEST_F(CompressedElasticTest, ARankThatDidNotSeeTheLastStepOwesWhatItLeft) {
  Start("a");
  Start("b", {.fail_reduction_of = 10});  // a applies step 10, b does not
  launcher_.Form({"a", "b"});

  launcher_.AwaitBroken({"a", "b"});
  launcher_.Form({"b", "a"});

  Finish({"a", "b"});
  EXPECT_THAT(AuditOf("b"), HasSubstr(R"("residuals":"taken-over")"));
  ExpectReplayed();
}

TEST_F(CompressedElasticTest, AWorldGrowsAndShrinksToOne) {
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
  launcher_.AwaitBoundary({"a", "b"});

  launcher_.Form({"a", "b", "c"});
  shrink.AwaitReached();
  launcher_.Switch();
  shrink.Open();
  launcher_.AwaitBoundary({"a", "b", "c"});
  launcher_.Form({"c"});

  Finish({"c"});
  EXPECT_THAT(AuditOf("c"), HasSubstr(R"("residuals":"kept")"));
  ExpectReplayed();
}

TEST_F(CompressedElasticTest, AMemberThatComesBackHasNothingLeftToGive) {
  Gate leave(10);
  Gate back(20);
  Start("a", {.at = [&](int64_t step) {
          leave.Pass(step);
          back.Pass(step);
        }});
  Start("b");
  launcher_.Form({"a", "b"});
  leave.AwaitReached();
  launcher_.Switch();
  leave.Open();
  launcher_.AwaitBoundary({"a", "b"});

  launcher_.Form({"a"});
  back.AwaitReached();
  launcher_.Switch();
  back.Open();
  launcher_.AwaitBoundary({"a"});
  launcher_.Form({"a", "b"});

  Finish({"a", "b"});
  EXPECT_THAT(AuditOf("b"), HasSubstr(R"("residuals":"dropped")"));
  ExpectReplayed();
}

}  // namespace
}  // namespace ringmaster::trainer
