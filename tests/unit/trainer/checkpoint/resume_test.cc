// Tests the loss of all ranks. New ranks resume from a checkpoint on disk or a snapshot in memory.
// For any world sizes, the final parameters must equal those of a single rank bit for bit, and the
// audit must report the steps that were rolled back.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <list>
#include <sys/mount.h>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/eventually.h"
#include "tests/unit/trainer/audited.h"
#include "tests/unit/trainer/elastic_rank.h"
#include "tests/unit/trainer/fake_launcher.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "tests/unit/trainer/unreadable.h"

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
  ~ResumeTest() override { launcher_.Close(); }  // ends the ranks before ranks_ joins them

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
  // Blocks until all ranks have called this: no rank dies while another is a step behind.
  void AwaitAll(std::size_t ranks) {
    ++dying_;
    EXPECT_TRUE(Eventually([&] { return dying_ >= ranks; }));
  }
  void AwaitDone(int64_t step) const {
    const auto limit = std::chrono::steady_clock::now() + FakeLauncher::kLimit;
    const std::string done = checkpoints_ + "/1.1-" + std::to_string(step) + "/DONE";
    while (!fs::exists(done) && std::chrono::steady_clock::now() < limit) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(fs::exists(done)) << done;
  }

  // Expects these ranks to end with the state of a faultless run. Returns the audit's report.
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

TEST_F(ResumeTest, OthersResumeFromTheNewestCheckpointAndReportIt) {
  TrainAndDie({"a", "b"});

  const audit::Report report = FinishWith({"c", "d"});

  EXPECT_EQ(audit::ExitCodeOf(report.findings), audit::kExitRolledBack);
  EXPECT_EQ(report.findings.rolled_back, 1);
  ASSERT_TRUE(launcher_.kept().has_value());
  EXPECT_EQ(launcher_.kept()->step, 15);
  EXPECT_GT(launcher_.kept()->bytes, 0);
  EXPECT_THAT(report.findings.sentences,
              Contains(HasSubstr("epoch 1.2 adopted step 15 of epoch 1.1, from the latest "
                                 "checkpoint that was kept, when 16 steps were committed")));
  EXPECT_THAT(StepLogOf("c"),
              HasSubstr(R"({"resumed":{"step":15,"from":"checkpoint","epoch":[1,1],)"
                        R"("world_epoch":[1,2]}})"));
  EXPECT_TRUE(fs::exists(checkpoints_ + "/1.2-30/DONE")) << "the last step is a checkpoint";
  EXPECT_FALSE(fs::exists(checkpoints_ + "/1.1-15")) << "three newer ones are complete";
}

TEST_F(ResumeTest, ASmallerWorldContinuesBitForBit) {
  TrainAndDie({"a", "b"});

  EXPECT_EQ(FinishWith({"c"}).findings.rolled_back, 1);
}

TEST_F(ResumeTest, ALargerWorldContinuesBitForBit) {
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
  ASSERT_TRUE(launcher_.kept().has_value());
  EXPECT_EQ(launcher_.kept()->step, 10) << "the damaged one is of no use";
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

TEST_F(ResumeTest, AnUnreadableCheckpointIsReportedAndWaitedFor) {
  TrainAndDie({"a", "b"});
  Unreadable fault(checkpoints_ + "/1.1-15/shard-0");
  if (!fault.mounted()) GTEST_SKIP() << "mounting needs root";
  for (const char* name : {"c", "d"}) Start(name);
  launcher_.Form({"c", "d"});
  launcher_.AwaitFault("restore");
  fault.Heal();
  launcher_.AwaitFault("restore", false);

  for (const char* name : {"c", "d"}) launcher_.AwaitDone({name});
  for (ElasticRank& rank : ranks_) {
    if (rank.name() != "c" && rank.name() != "d") continue;
    EXPECT_TRUE(rank.Await().ok());
    EXPECT_EQ(rank.state(), TrainAlone(kResumedLast));
  }
  EXPECT_EQ(AuditLogsIn(logs_, kResumedLast).findings.rolled_back, 1) << "15 was gone on from";
}

// Returns the velocity, which does not depend on the number of steps of the run.
std::vector<float> VelocityOf(const std::vector<float>& state) {
  return {state.begin() + static_cast<std::ptrdiff_t>(state.size() / 2), state.end()};
}

// Several jobs that use the same volume. Each job has a separate launcher.
class OtherJobs : public ::testing::Test {
 protected:
  static CheckpointPlace Job(const std::string& name, const std::string& uid) {
    return {.volume = "", .ns = "team", .name = name, .uid = uid};
  }
  std::string Folder(const CheckpointPlace& job) const {
    return checkpoints_ + "/team/" + job.name + "/" + job.uid;
  }
  std::string Logs(const CheckpointPlace& job) const { return folder_.path() + "/logs-" + job.uid; }

  // The result of Train(): the final state, and what rank 0 reported to the launcher.
  struct Trained {
    std::vector<float> state;
    std::optional<Beginning> beginning;
    bool nothing_trained = false;
    std::vector<int64_t> steps;  // the steps in the step log
    Result<RunSummary> summary = Error{};
  };
  Trained Train(const CheckpointPlace& job, int64_t steps, std::size_t ranks = 2,
                const RankScript& script = {}) {
    FakeLauncher launcher;
    std::list<ElasticRank> all;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < ranks; ++i) {
      RankScript mine = script;
      mine.checkpoints = checkpoints_;
      mine.place = job;
      mine.every_checkpoint = true;
      names.push_back("rank" + std::to_string(i) + "-" + std::to_string(++started_));
      all.emplace_back(launcher, names.back(), Logs(job), steps, std::move(mine));
    }
    launcher.Form(names);
    Trained trained;
    for (ElasticRank& rank : all) {
      if (!rank.Await().ok()) launcher.Close();
    }
    trained.summary = all.front().Await();
    trained.state = all.front().state();
    trained.steps = all.front().logged_steps();
    trained.beginning = launcher.beginning();
    trained.nothing_trained = launcher.nothing_trained();
    return trained;
  }

  const TemporaryFolder folder_;
  const std::string checkpoints_ = folder_.path() + "/checkpoints";
  int started_ = 0;
};

TEST_F(OtherJobs, AJobThatIsAppliedAgainTrainsFromItsFirstStepAndReportsHowToResume) {
  Train(Job("digits", "uid-1"), 12);

  const Trained again = Train(Job("digits", "uid-2"), 12);

  ASSERT_TRUE(again.summary.ok()) << again.summary.error().message;
  EXPECT_EQ(again.steps.front(), 1);
  EXPECT_EQ(again.steps.size(), 12U);
  EXPECT_FALSE(again.nothing_trained);
  ASSERT_TRUE(again.beginning.has_value());
  EXPECT_EQ(again.beginning->version, StateVersion{});
  EXPECT_THAT(again.beginning->text, HasSubstr("up to step 12"));
  EXPECT_THAT(again.beginning->text, HasSubstr("restoreFrom: {job: digits}"));
  EXPECT_TRUE(fs::exists(Folder(Job("digits", "uid-1")) + "/1.1-12/DONE")) << "it stays";
}

TEST_F(OtherJobs, AJobOfAnotherNameBeginsInSilence) {
  Train(Job("digits", "uid-1"), 12);

  EXPECT_FALSE(Train(Job("letters", "uid-2"), 12).beginning.has_value());
}

TEST_F(OtherJobs, AJobCanResumeFromAnothersCheckpointAndKeepsThatFirst) {
  Train(Job("digits", "uid-1"), 12, 2, {.shaping = "--learning-rate=0.1\n--seed=1\n"});
  CheckpointPlace second = Job("letters", "uid-2");
  second.from_job = "digits";
  const std::string copy = Folder(second) + "/1.1-12/DONE";
  std::atomic<bool> kept_first = false;

  const Trained trained = Train(second, 30, 3,
                                {.at =
                                     [&](int64_t step) {
                                       if (step == 13) kept_first = fs::exists(copy);
                                     },
                                 .shaping = "--learning-rate=0.2\n--seed=1\n"});

  ASSERT_TRUE(trained.summary.ok()) << trained.summary.error().message;
  EXPECT_TRUE(kept_first);
  EXPECT_EQ(trained.steps.front(), 13);
  EXPECT_EQ(VelocityOf(trained.state), VelocityOf(TrainAlone(30)));
  EXPECT_FALSE(trained.nothing_trained);
  ASSERT_TRUE(trained.beginning.has_value());
  EXPECT_EQ(trained.beginning->version.step, 12);
  EXPECT_THAT(trained.beginning->text, HasSubstr("team/digits/uid-1/1.1-12"));
  EXPECT_THAT(trained.beginning->text, HasSubstr("--learning-rate=0.1 instead of 0.2"));
  EXPECT_EQ(AuditLogsIn(Logs(second), 30).findings.lost, 0);
}

TEST_F(OtherJobs, ItsOwnCheckpointsWinOverNewerOnesOfTheOther) {
  Train(Job("digits", "uid-1"), 12);
  CheckpointPlace second = Job("letters", "uid-2");
  second.from_job = "digits";
  Train(second, 20);
  Train(Job("digits", "uid-3"), 28);

  const Trained resumed = Train(second, 30);

  ASSERT_TRUE(resumed.summary.ok()) << resumed.summary.error().message;
  EXPECT_EQ(resumed.steps.front(), 21);
  EXPECT_EQ(VelocityOf(resumed.state), VelocityOf(TrainAlone(30)));
}

TEST_F(OtherJobs, AStateThatHasAllStepsIsNoTrainingOfThisJob) {
  Train(Job("digits", "uid-1"), 12);
  CheckpointPlace second = Job("digits", "uid-2");
  second.from_path = "team/digits/uid-1/1.1-10";

  const Trained done = Train(second, 10);
  const Trained goes_on = Train(second, 10);

  ASSERT_TRUE(done.summary.ok()) << done.summary.error().message;
  EXPECT_THAT(done.steps, ::testing::IsEmpty());
  EXPECT_TRUE(done.nothing_trained);
  EXPECT_TRUE(goes_on.nothing_trained) << "its own checkpoint has none of its own steps";
}

TEST_F(OtherJobs, WhatIsNotThereEndsTheJobAndIsNamed) {
  CheckpointPlace second = Job("letters", "uid-2");
  second.from_job = "digits";

  const Trained refused = Train(second, 10, 1);

  ASSERT_FALSE(refused.summary.ok());
  EXPECT_EQ(refused.summary.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(refused.summary.error().message, HasSubstr("spec.checkpoint.restoreFrom"));
}

TEST_F(OtherJobs, AVolumeThatCannotBeWrittenHoldsTheBeginningUpAndLosesNothing) {
  Train(Job("digits", "uid-1"), 12);
  CheckpointPlace second = Job("letters", "uid-2");
  second.from_job = "digits";
  fs::create_directories(Folder(second));
  if (::mount("none", Folder(second).c_str(), "tmpfs", 0, "size=4k,nr_inodes=1") != 0) {
    GTEST_SKIP() << "mounting needs root";
  }
  FakeLauncher launcher;
  RankScript script{.checkpoints = checkpoints_, .place = second};
  ElasticRank rank(launcher, "a", Logs(second), 20, script);
  launcher.Form({"a"});
  launcher.AwaitFault("restore");
  ::umount2(Folder(second).c_str(), MNT_DETACH);
  launcher.AwaitFault("restore", false);

  EXPECT_TRUE(rank.Await().ok());
  EXPECT_EQ(VelocityOf(rank.state()), VelocityOf(TrainAlone(20)));
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
  EXPECT_THAT(summary.error().message,
              HasSubstr("1.1-15/shard-0: it belongs to another model: it has "
                        "'other float32 [28]'"));
}

}  // namespace
}  // namespace ringmaster::trainer
