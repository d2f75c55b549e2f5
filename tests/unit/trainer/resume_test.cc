// All ranks are lost: others go on from what was kept on disk or in memory. The parameters at the
// end are, bit for bit, those of one rank alone, whatever the sizes of the worlds, and the audit
// names what was given up.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <list>
#include <thread>

#include "tests/unit/trainer/audited.h"
#include "tests/unit/trainer/elastic_rank.h"
#include "tests/unit/trainer/fake_launcher.h"
#include "tests/unit/trainer/temporary_folder.h"

namespace ringmaster::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int64_t kResumedLast = 30;  // steps of a run
constexpr int64_t kDeath = 17;        // all ranks die in this step

class ResumeTest : public ::testing::Test {
 protected:
  ResumeTest() { fs::create_directory(logs_); }
  ~ResumeTest() override { launcher_.Close(); }  // before ranks_ joins its threads

  ElasticRank& Start(const std::string& name, RankScript script = {}) {
    if (script.checkpoints.empty()) script.checkpoints = checkpoints_;
    script.every_checkpoint = true;
    return ranks_.emplace_back(launcher_, name, logs_, kResumedLast, std::move(script));
  }

  // Trains with ranks of these names until all of them die; checkpoints 5, 10 and 15 are complete.
  void TrainAndDie(const std::vector<std::string>& names, const std::string& snapshots = "") {
    for (const std::string& name : names) {
      Start(name, {.at =
                       [this, size = names.size()](int64_t step) {
                         if (step == kDeath) AwaitDone(15);
                         if (step == kDeath) AwaitAll(size);
                         DieAt(step, kDeath);
                       },
                   .snapshots = name == names.front() ? snapshots : ""});
    }
    launcher_.Form(names);
    for (ElasticRank& rank : ranks_) {
      const bool dies = std::find(names.begin(), names.end(), rank.name()) != names.end();
      if (dies) {
        EXPECT_FALSE(rank.Await().ok());
      }
    }
  }
  // Nobody dies while another one is still in the step before.
  void AwaitAll(std::size_t ranks) {
    ++dying_;
    while (dying_ < ranks) std::this_thread::yield();
  }
  void AwaitDone(int64_t step) const {
    const auto limit = std::chrono::steady_clock::now() + FakeLauncher::kLimit;
    const std::string done = checkpoints_ + "/1.1-" + std::to_string(step) + "/DONE";
    while (!fs::exists(done) && std::chrono::steady_clock::now() < limit) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(fs::exists(done)) << done;
  }

  // They finish the run with the state of one that never had a fault. Returns the audit's report.
  audit::Report FinishWith(const std::vector<std::string>& names, bool start = true) {
    if (start) {
      for (const std::string& name : names) Start(name);
    }
    launcher_.Form(names);
    const std::vector<float> alone = TrainAlone(kResumedLast);
    for (ElasticRank& rank : ranks_) {
      if (std::find(names.begin(), names.end(), rank.name()) == names.end()) continue;
      const Result<RunSummary>& summary = rank.Await();
      EXPECT_TRUE(summary.ok()) << (summary.ok() ? "" : summary.error().message);
      EXPECT_EQ(rank.state(), alone) << rank.name();
    }
    return AuditLogsIn(logs_, kResumedLast);
  }
  std::string StepLogOf(const std::string& name) const {
    std::ifstream file(logs_ + "/" + name + ".log");
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  FakeLauncher launcher_;
  const TemporaryFolder folder_;
  const std::string logs_ = folder_.path() + "/logs";
  const std::string checkpoints_ = folder_.path() + "/checkpoints";
  std::atomic<std::size_t> dying_ = 0;
  std::list<ElasticRank> ranks_;
};

TEST_F(ResumeTest, OthersGoOnFromTheNewestCheckpointAndSaySo) {
  TrainAndDie({"a", "b"});

  const audit::Report report = FinishWith({"c", "d"});

  EXPECT_EQ(audit::ExitCodeOf(report.findings), audit::kExitRolledBack);
  EXPECT_EQ(report.findings.rolled_back, 1);
  EXPECT_THAT(report.findings.sentences,
              Contains(HasSubstr("epoch 1.2 adopted step 15 of epoch 1.1, from the newest "
                                 "checkpoint that was kept, when 16 steps were committed")));
  EXPECT_THAT(StepLogOf("c"),
              HasSubstr(R"({"resumed":{"step":15,"from":"checkpoint","epoch":[1,1],)"
                        R"("world_epoch":[1,2]}})"));
  EXPECT_TRUE(fs::exists(checkpoints_ + "/1.2-30/DONE")) << "the last step is a checkpoint";
  EXPECT_FALSE(fs::exists(checkpoints_ + "/1.1-15")) << "three newer ones are complete";
}

TEST_F(ResumeTest, ASmallerWorldGoesOnBitForBit) {
  TrainAndDie({"a", "b"});

  EXPECT_EQ(FinishWith({"c"}).findings.rolled_back, 1);
}

TEST_F(ResumeTest, ALargerWorldGoesOnBitForBit) {
  TrainAndDie({"a", "b"});

  EXPECT_EQ(FinishWith({"c", "d", "e"}).findings.rolled_back, 1);
}

TEST_F(ResumeTest, TheOneBeforeIsUsedWhenTheNewestIsDamaged) {
  TrainAndDie({"a", "b"});
  std::fstream file(checkpoints_ + "/1.1-15/shard-0",
                    std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-1, std::ios::end);
  file.put('\x55');
  file.close();

  const audit::Report report = FinishWith({"c", "d"});

  EXPECT_EQ(report.findings.rolled_back, 6);
  EXPECT_EQ(audit::ExitCodeOf(report.findings), audit::kExitRolledBack);
}

TEST_F(ResumeTest, ARankThatLoadedLongAgoLooksAgain) {
  Start("early");
  launcher_.AwaitWaiting({"early"});
  TrainAndDie({"a", "b"});

  const audit::Report report = FinishWith({"early"}, /*start=*/false);

  EXPECT_EQ(report.findings.rolled_back, 1);
}

TEST_F(ResumeTest, ASnapshotLosesNoStep) {
  const std::string snapshots = folder_.path() + "/snapshots";
  fs::create_directory(snapshots);
  TrainAndDie({"a", "b"}, snapshots);
  Start("a2", {.snapshots = snapshots});
  Start("c");

  const audit::Report report = FinishWith({"c", "a2"}, /*start=*/false);

  EXPECT_LE(report.findings.rolled_back, 1) << "a snapshot may be skipped where it costs too much";
  EXPECT_EQ(report.findings.lost + report.findings.repeated + report.findings.disagreeing, 0);
}

TEST_F(ResumeTest, ACheckpointOfAnotherModelEndsTheRunAndIsNamed) {
  TrainAndDie({"a", "b"});
  const std::string path = checkpoints_ + "/1.1-15/shard-0";
  auto header = ReadShardHeader(path);
  ASSERT_TRUE(header.ok());
  header->identity.model = "other float32 [28]\n";
  std::vector<float> parameters(header->parts[0]);
  std::vector<float> velocity(header->parts[1]);
  header->checksum = Checksum(TrainableState{parameters, velocity});
  fs::remove(path);
  ASSERT_TRUE(WriteShard(path, *header, {parameters, velocity}).ok());
  std::ofstream(checkpoints_ + "/1.1-15/DONE")
      << EncodeDone({{0, fs::file_size(path), header->checksum}});

  ElasticRank& refused = Start("c");
  launcher_.Form({"c"});

  const Result<RunSummary>& summary = refused.Await();
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(summary.error().message, HasSubstr("1.1-15/shard-0: it is of another model: it has "
                                                 "'other float32 [28]'"));
}

}  // namespace
}  // namespace ringmaster::trainer
