// Tests which rank writes a state and when, which state is loaded, and write errors.

#include "worker/trainer/checkpoint/state_keeper.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <string>
#include <sys/mount.h>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "tests/fakes/fake_clock.h"
#include "tests/unit/trainer/hung_volume.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "worker/trainer/checkpoint/shard_file.h"

namespace ringmaster::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

// Grants checkpoints if `open`, and records the reports.
class Judge final : public MembershipSource {
 public:
  Result<World> AwaitWorld(control::Epoch) override { return World{}; }
  void Watch(control::Epoch, OverCallback) override {}
  void Unwatch() override {}
  bool SwitchWanted(control::Epoch, int64_t) override { return false; }
  void Broken(const World&, int, const std::string&) override {}
  void AtBoundary(const World&, int64_t) override {}
  void Report(const World&, const control::Progress&) override {}
  Result<bool> Finish(const World&, const control::Progress&) override { return true; }

  Result<void> AwaitGrant(const WrittenShard& shard, const std::stop_token& stop) override {
    std::unique_lock lock(mutex_);
    asked_.push_back(shard.step);
    changed_.notify_all();
    if (!changed_.wait(lock, stop, [&] { return open_; })) {
      return Error{ErrorKind::kCancelled, "asked to stop"};
    }
    return {};
  }
  void CheckpointComplete(int64_t step, int64_t /*bytes*/) override {
    const std::lock_guard lock(mutex_);
    complete_.push_back(step);
    changed_.notify_all();
  }
  void Unprotected(const std::string& what, const std::string& reason) override {
    const std::lock_guard lock(mutex_);
    unprotected_.emplace_back(what, reason);
    changed_.notify_all();
  }

  void Open(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  void AwaitAsked(int64_t step) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60),
                                  [&] { return !asked_.empty() && asked_.back() == step; }));
  }
  std::vector<int64_t> complete() {
    const std::lock_guard lock(mutex_);
    return complete_;
  }
  std::vector<std::pair<std::string, std::string>> unprotected() {
    const std::lock_guard lock(mutex_);
    return unprotected_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool open_ = true;
  std::vector<int64_t> asked_;
  std::vector<int64_t> complete_;
  std::vector<std::pair<std::string, std::string>> unprotected_;
};

// The state and keeper of one process. Another object with the same folders simulates a restart.
class Process {
 public:
  Process(const std::string& checkpoints, const std::string& snapshots,
          const std::string& run = "job-1", int64_t every = 10,
          std::chrono::milliseconds stuck_after = std::chrono::seconds(60))
      : keeper_(*StateKeeper::Open(
            {.checkpoints = {.volume = checkpoints},
             .checkpoint_every = every,
             .checkpoint_keep = 3,
             .snapshot_folder = snapshots,
             .identity = {.run = run, .model = "w float32 [64]\n", .shaping = ""},
             .stuck_after = stuck_after},
            {values_}, judge_, clock_)) {}

  // Trains one step in a world of `epoch`, as the session does.
  void Step(control::Epoch epoch, bool keep_the_one_before = false) {
    world_.epoch = epoch;
    keeper_->Committed(world_, held_, keep_the_one_before);
    held_.version = held_.Next(epoch);
    held_.origin = StateOrigin::kTraining;
    for (float& value : values_) value += 1;
    keeper_->Applied(world_, held_, keeper_->SnapshotDue());
  }
  void Committed() { keeper_->Committed(world_, held_); }
  void Finish(const StateKeeper::GivenUp& given_up = {}) {
    keeper_->Finished(world_, held_, given_up);
  }
  bool Stop(std::chrono::milliseconds limit) { return keeper_->Stop(limit); }
  void Restore() {
    const auto restored = keeper_->Restore(held_, true);
    ASSERT_TRUE(restored.ok()) << restored.error().message;
    held_ = *restored;
  }

  Judge& judge() { return judge_; }
  FakeClock& clock() { return clock_; }
  World& world() { return world_; }
  const LocalState& held() const { return held_; }
  float value() const { return values_.front(); }

 private:
  Judge judge_;
  FakeClock clock_;
  World world_;
  LocalState held_;
  std::vector<float> values_ = std::vector<float>(64);
  std::unique_ptr<StateKeeper> keeper_;
};

constexpr control::Epoch kWorld{1, 1};

class StateKeeperTest : public ::testing::Test {
 protected:
  StateKeeperTest() {
    for (const std::string& folder : {checkpoints_, snapshots_}) fs::create_directory(folder);
  }

  const TemporaryFolder temporary_;
  const std::string checkpoints_ = temporary_.path() + "/checkpoints";
  const std::string snapshots_ = temporary_.path() + "/snapshots";
};

TEST_F(StateKeeperTest, RankZeroWritesCommittedStatesAndTheLastOne) {
  Process process(checkpoints_, "");
  for (int step = 0; step < 24; ++step) process.Step(kWorld);
  process.Finish();

  EXPECT_THAT(process.judge().complete(), Contains(24));
  Process next(checkpoints_, "");
  next.Restore();
  EXPECT_EQ(next.held().version, (StateVersion{kWorld, 24}));
  EXPECT_EQ(next.held().origin, StateOrigin::kCheckpoint);
  EXPECT_EQ(next.value(), 24);
}

TEST_F(StateKeeperTest, AStateThatIsWantedIsWrittenOutOfTurn) {
  Process process(checkpoints_, "");
  for (int step = 0; step < 4; ++step) process.Step(kWorld);
  process.Step(kWorld, true);
  process.judge().AwaitAsked(4);
}

TEST_F(StateKeeperTest, OtherRanksWriteNone) {
  Process process(checkpoints_, "");
  process.world().rank = 1;
  for (int step = 0; step < 24; ++step) process.Step(kWorld);
  process.Finish();

  EXPECT_TRUE(fs::is_empty(checkpoints_));
}

TEST_F(StateKeeperTest, WithoutAGrantNothingIsCompleteAndTrainingDoesNotWait) {
  {
    Process fenced(checkpoints_, "");
    fenced.judge().Open(false);
    for (int step = 0; step < 11; ++step) fenced.Step(kWorld);
    fenced.judge().AwaitAsked(10);
    for (int step = 0; step < 30; ++step) fenced.Step(kWorld);
    EXPECT_EQ(fenced.held().version.step, 41);
    EXPECT_THAT(fenced.judge().complete(), IsEmpty());
  }

  Process next(checkpoints_, "");
  next.Restore();
  EXPECT_EQ(next.held().version.step, 0);
}

TEST_F(StateKeeperTest, ALastStateThatWaitsForTheOneBeforeIsNotReportedAsSkipped) {
  InitLog("test", "info", LogFormat::kText);  // logs to stderr, which is captured
  for (const bool last : {true, false}) {
    const std::string folder = checkpoints_ + (last ? "/last" : "/later");
    Process process(folder, "");
    process.judge().Open(false);
    for (int step = 0; step < 20; ++step) process.Step(kWorld);
    ::testing::internal::CaptureStderr();

    process.Committed();  // the writer is busy with step 10
    if (!last) process.Step(kWorld);
    process.judge().Open(true);
    process.Finish();

    EXPECT_THAT(process.judge().complete(), ElementsAre(10, last ? 20 : 21));
    const auto skipped = HasSubstr("Skipped a checkpoint");
    const std::string log = ::testing::internal::GetCapturedStderr();
    if (last) {
      EXPECT_THAT(log, Not(skipped));
    } else {
      EXPECT_THAT(log, skipped);
    }
  }
}

// A rank may still be writing when a later world has another rank 0, which removes what it wrote.
TEST_F(StateKeeperTest, AStateThatANewerOneReplacesWhileItIsWrittenIsNoFailure) {
  Process process(checkpoints_, "");
  process.judge().Open(false);
  for (int step = 0; step < 11; ++step) process.Step(kWorld);
  process.judge().AwaitAsked(10);
  std::vector<float> values(64);
  ShardHeader newer;
  newer.version = {.epoch = {1, 2}, .step = 20};
  newer.parts = {values.size()};
  EXPECT_TRUE(CheckpointFolder(checkpoints_).Write(newer, {values}).ok());

  process.judge().Open(true);
  process.Finish();

  EXPECT_THAT(process.judge().unprotected(), IsEmpty());
  EXPECT_THAT(process.judge().complete(), ElementsAre(11));
}

TEST_F(StateKeeperTest, AVolumeThatTakesNoDataOfTheLastStateIsReportedAndNotWaitedFor) {
  Process process(checkpoints_, "", "job-1", 10, std::chrono::seconds(1));
  for (int step = 0; step < 3; ++step) process.Step(kWorld);
  const HungVolume volume(checkpoints_);
  if (!volume.mounted()) GTEST_SKIP() << "mounting needs root";

  process.Finish();

  EXPECT_THAT(
      process.judge().unprotected(),
      ElementsAre(Pair("checkpoint", "the volume took no data of the last checkpoint for 1 s")));
}

TEST_F(StateKeeperTest, TheLastStateIsWaitedForUntilTheWorldEndsHoweverLongItsGrantTakes) {
  Process process(checkpoints_, "", "job-1", 10, std::chrono::milliseconds(100));
  process.judge().Open(false);
  for (int step = 0; step < 3; ++step) process.Step(kWorld);
  int looks = 0;

  process.Finish([&] {
    process.judge().AwaitAsked(3);
    return ++looks == 5;
  });

  EXPECT_EQ(looks, 5);
  EXPECT_THAT(process.judge().unprotected(), IsEmpty());
}

TEST_F(StateKeeperTest, AVolumeThatHangsKeepsTheWriterFromStopping) {
  Process process(checkpoints_, "");
  HungVolume volume(checkpoints_);
  if (!volume.mounted()) GTEST_SKIP() << "mounting needs root";
  for (int step = 0; step < 11; ++step) process.Step(kWorld);

  EXPECT_FALSE(process.Stop(std::chrono::milliseconds(10)));

  volume.Heal();
  EXPECT_TRUE(process.Stop(std::chrono::seconds(60)));
}

TEST(VolumeWatch, IsStuckOnceNothingWasTakenForTheLimitWhileTheVolumeWasUsed) {
  using std::chrono::milliseconds;
  VolumeWatch watch(milliseconds(300));
  for (uint64_t taken = 1; taken < 10; ++taken) {
    EXPECT_FALSE(watch.Stuck(taken, true, milliseconds(200)));
  }
  for (int look = 0; look < 10; ++look) EXPECT_FALSE(watch.Stuck(9, false, milliseconds(200)));
  EXPECT_FALSE(watch.Stuck(9, true, milliseconds(200)));
  EXPECT_TRUE(watch.Stuck(9, true, milliseconds(200)));
}

TEST_F(StateKeeperTest, ANewerCheckpointIsFoundWhenLookingAgain) {
  Process early(checkpoints_, "");
  early.Restore();
  EXPECT_EQ(early.held().version.step, 0);
  Process process(checkpoints_, "");
  for (int step = 0; step < 10; ++step) process.Step(kWorld);
  process.Finish();

  early.Restore();

  EXPECT_EQ(early.held().version.step, 10);
  EXPECT_EQ(early.value(), 10);
}

TEST_F(StateKeeperTest, AnotherRunHasHigherVersionsThanAllEarlierOnes) {
  Process first(checkpoints_, "", "job-1");
  for (int step = 0; step < 10; ++step) first.Step({3, 12});
  first.Finish();

  Process second(checkpoints_, "", "job-2");
  second.Restore();
  EXPECT_EQ(second.held().EpochOfRun().term, 0);
  second.Step({1, 1});
  EXPECT_LT((StateVersion{{3, 12}, 10}), second.held().version);
  for (int step = 0; step < 9; ++step) second.Step({1, 1});
  second.Finish();
  Process joiner(checkpoints_, "", "job-2");
  joiner.Restore();

  EXPECT_EQ(joiner.held().version, second.held().version);
  EXPECT_EQ(joiner.held().term_base, second.held().term_base);
  EXPECT_EQ(joiner.held().EpochOfRun(), (control::Epoch{1, 1}));
  EXPECT_EQ(joiner.value(), 20);
}

TEST_F(StateKeeperTest, ARestartedProcessResumesFromTheSnapshot) {
  {
    Process killed(checkpoints_, snapshots_);
    for (int step = 0; step < 13; ++step) {
      killed.Step(kWorld);
      killed.clock().Advance(std::chrono::minutes(2));
    }
    killed.Finish();
    killed.Step(kWorld);
  }

  Process next(checkpoints_, snapshots_);
  next.Restore();

  EXPECT_EQ(next.held().version.step, 14);
  EXPECT_EQ(next.held().origin, StateOrigin::kSnapshot);
  EXPECT_EQ(next.value(), 14);
}

TEST_F(StateKeeperTest, ADamagedSnapshotMeansTheOtherOneAndThenTheCheckpoint) {
  {
    Process killed("", snapshots_);
    for (int step = 0; step < 4; ++step) killed.Step(kWorld);
  }
  const auto damage = [](const std::string& path) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  };
  const auto restored = [&] {
    Process next("", snapshots_);
    next.Restore();
    return next.held().version.step;
  };
  EXPECT_EQ(restored(), 4);
  damage(snapshots_ + "/state-b");
  EXPECT_EQ(restored(), 3);
  damage(snapshots_ + "/state-a");
  EXPECT_EQ(restored(), 0);
}

TEST_F(StateKeeperTest, OneRankOfAWorkerMakesSnapshotsAndAllResumeFromThem) {
  Process first("", snapshots_);
  Process second("", snapshots_);
  second.world().local_rank = 1;
  for (int step = 0; step < 3; ++step) first.Step(kWorld);
  for (int step = 0; step < 5; ++step) second.Step(kWorld);

  Process next("", snapshots_);
  next.Restore();

  EXPECT_EQ(next.held().version.step, 3);
}

// Tests snapshots by two ranks: the first may leave a world, even during a snapshot, and return.
TEST_F(StateKeeperTest, RanksThatMakeSnapshotsInTurnLeaveTheNewestTwo) {
  Process first("", snapshots_);
  Process second("", snapshots_);
  const auto files = [&] {
    std::vector<int64_t> steps;
    for (const char* name : {"/state-a", "/state-b"}) {
      steps.push_back(ReadShardHeader(snapshots_ + name)->version.step);
    }
    std::ranges::sort(steps);
    return steps;
  };
  for (int step = 0; step < 3; ++step) first.Step(kWorld);
  EXPECT_THAT(files(), ElementsAre(2, 3));

  second.Restore();
  second.Step(kWorld);
  EXPECT_THAT(files(), ElementsAre(3, 4));

  first.Restore();
  first.Step(kWorld);
  EXPECT_THAT(files(), ElementsAre(4, 5));
  first.Step(kWorld);
  EXPECT_THAT(files(), ElementsAre(5, 6));
}

TEST_F(StateKeeperTest, ASnapshotOfAnotherRunIsOfNoUse) {
  {
    Process killed("", snapshots_, "job-1");
    killed.Step(kWorld);
  }
  Process next("", snapshots_, "job-2");

  next.Restore();

  EXPECT_EQ(next.held().version.step, 0);
}

TEST_F(StateKeeperTest, FullSharedMemoryIsReportedOnceAndTrainingContinues) {
  const std::string small = temporary_.path() + "/shm";
  fs::create_directory(small);
  if (::mount("none", small.c_str(), "tmpfs", 0, "size=4k") != 0) {
    GTEST_SKIP() << "mounting a file system needs root";
  }
  std::ofstream(small + "/full") << std::string(4096, 'x');
  {
    Process process("", small);
    for (int step = 0; step < 5; ++step) process.Step(kWorld);

    EXPECT_THAT(process.judge().unprotected(),
                ElementsAre(Pair("snapshot", HasSubstr("No space left on device"))));
  }
  ::umount(small.c_str());
}

TEST_F(StateKeeperTest, AFullVolumeIsReportedAndSoIsItsRecovery) {
  const std::string small = temporary_.path() + "/volume";
  fs::create_directory(small);
  if (::mount("none", small.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "mounting a file system needs root";
  }
  {
    std::ofstream(small + "/full") << std::string(64 << 10, 'x');
    Process process(small, "", "job-1", 1);
    process.Step(kWorld);
    process.Finish();
    process.Step(kWorld);
    process.Finish();
    EXPECT_THAT(process.judge().unprotected(),
                ElementsAre(Pair("checkpoint", HasSubstr("No space left on device"))));

    fs::remove(small + "/full");
    process.Step(kWorld);
    process.Finish();
    EXPECT_EQ(process.judge().unprotected().size(), 2U);
    EXPECT_EQ(process.judge().unprotected().back().second, "");
    EXPECT_THAT(process.judge().complete(), Contains(3));
  }
  ::umount(small.c_str());
}

// A share so large that writing it takes a while.
class LargeShare final : public ShardedState {
 public:
  Result<ShardedOutcome> Sync(const ShardedWorld&) override { return ShardedOutcome{}; }
  void Exclude() override {}
  void Applied(const LocalState&) override {}
  Result<void> HandOver(Communicator&, bool, std::chrono::milliseconds) override { return {}; }
  int64_t all_rows() const override { return kRows; }
  ShardView view() const override { return {.row_values = 1, .first_row = 0, .values = rows_}; }
  uint64_t checksum() const override { return 0; }

 private:
  static constexpr int64_t kRows = 4 << 20;
  const std::vector<float> rows_ = std::vector<float>(kRows);
};

class PartsTest : public StateKeeperTest {
 protected:
  std::unique_ptr<StateKeeper> Keeper() {
    return *StateKeeper::Open({.checkpoints = {.volume = checkpoints_},
                               .checkpoint_every = 1,
                               .checkpoint_keep = 3,
                               .snapshot_folder = "",
                               .identity = {.run = "job-1", .model = "m"},
                               .sharded = &share_},
                              {values_}, judge_, clock_);
  }
  // Waits as ranks do: they look between steps.
  static void Await(const std::function<bool()>& done) {
    for (int look = 0; !done() && look < 6000; ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(done());
  }
  static LocalState StateOf(int64_t step) { return {.version = {kWorld, step}}; }

  const World world_{.epoch = kWorld, .rank = 0, .size = 1};
  const LargeShare share_{};
  Judge judge_;
  const FakeClock clock_{};
  std::vector<float> values_ = std::vector<float>(64);
};

// If parts took longer than the interval, each checkpoint would abandon the one before it.
TEST_F(PartsTest, ACheckpointIsSkippedWhilePartsOfTheOneBeforeAreBeingWritten) {
  const auto keeper = Keeper();
  keeper->Committed(world_, StateOf(1));
  for (int64_t step = 2; step < 5; ++step) keeper->Committed(world_, StateOf(step));
  Await([&] { return keeper->PartWritten().has_value(); });
  keeper->Committed(world_, StateOf(5));  // another rank still writes

  EXPECT_EQ(keeper->PartWritten(), (StateVersion{kWorld, 1}));
  keeper->PartsWritten({kWorld, 1});
  EXPECT_TRUE(keeper->AwaitWritten(std::chrono::seconds(60)));
  EXPECT_THAT(judge_.complete(), ElementsAre(1));
  EXPECT_THAT(judge_.unprotected(), IsEmpty());

  keeper->Committed(world_, StateOf(6));
  Await([&] { return keeper->PartWritten().has_value(); });
  keeper->PartsWritten({kWorld, 6});
  EXPECT_TRUE(keeper->AwaitWritten(std::chrono::seconds(60)));
  EXPECT_THAT(judge_.complete(), ElementsAre(1, 6));
}

TEST_F(PartsTest, ACheckpointWithAFailedPartIsAbandonedForTheNext) {
  const auto keeper = Keeper();
  // A folder with the name of the part that is being written.
  const std::string taken = checkpoints_ + "/.writing-1.1-1~of-1.1~part-0-of-1";
  fs::create_directories(taken + "/full");

  keeper->Committed(world_, StateOf(1));
  Await([&] { return keeper->PartFailed(); });
  EXPECT_EQ(keeper->PartWritten(), std::nullopt);
  keeper->PartsFailed();
  EXPECT_FALSE(keeper->PartFailed());
  EXPECT_TRUE(keeper->AwaitWritten(std::chrono::seconds(60)));

  keeper->Committed(world_, StateOf(2));
  Await([&] { return keeper->PartWritten().has_value(); });
  keeper->PartsWritten({kWorld, 2});
  EXPECT_TRUE(keeper->AwaitWritten(std::chrono::seconds(60)));
  EXPECT_THAT(judge_.complete(), ElementsAre(2));
}

class LastPart : public StateKeeperTest, public ::testing::WithParamInterface<int> {};

TEST_P(LastPart, IsWrittenThoughTheOneBeforeWasUnderWay) {
  const World world{.epoch = kWorld, .rank = GetParam(), .size = 1};
  const LargeShare share;
  Judge judge;
  const FakeClock clock;
  std::vector<float> values(64);
  const auto keeper = *StateKeeper::Open({.checkpoints = {.volume = checkpoints_},
                                          .checkpoint_every = 1,
                                          .checkpoint_keep = 3,
                                          .snapshot_folder = "",
                                          .identity = {.run = "job-1", .model = "m"},
                                          .sharded = &share},
                                         {values}, judge, clock);
  const LocalState before{.version = {kWorld, 1}};
  const LocalState last{.version = {kWorld, 2}};

  keeper->Committed(world, before);
  keeper->Committed(world, last);
  while (!keeper->FinishPart(world, last)) continue;

  ASSERT_EQ(keeper->PartWritten(), last.version);
  keeper->PartsWritten(last.version);
  keeper->Finished(world, last);
  EXPECT_EQ(judge.complete(), GetParam() == 0 ? std::vector<int64_t>{2} : std::vector<int64_t>{});
}

INSTANTIATE_TEST_SUITE_P(OfARank, LastPart, ::testing::Values(0, 1));

TEST(SnapshotPace, CostsAtMostAHundredthOfTheTimeOrIsDueOnceAMinuteForATenth) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  const Clock::Time start{};
  SnapshotPace pace;
  EXPECT_TRUE(pace.Due(start));

  pace.Took(start, start + milliseconds(2));
  EXPECT_FALSE(pace.Due(start + milliseconds(199)));
  EXPECT_TRUE(pace.Due(start + milliseconds(200)));

  pace.Took(start, start + seconds(5));
  EXPECT_FALSE(pace.Due(start + seconds(59)));
  EXPECT_TRUE(pace.Due(start + seconds(60)));

  pace.Took(start, start + seconds(20));
  EXPECT_FALSE(pace.Due(start + seconds(199)));
  EXPECT_TRUE(pace.Due(start + seconds(200)));
}

}  // namespace
}  // namespace ringmaster::trainer
