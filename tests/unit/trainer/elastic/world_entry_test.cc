// Tests how a rank enters and leaves worlds of one rank: what it reports, and when it tries again.

#include "worker/trainer/elastic/world_entry.h"

#include <chrono>
#include <deque>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "tests/unit/trainer/elastic/memory_communicator.h"
#include "tests/unit/trainer/fake_checkpointer.h"
#include "worker/trainer/comm/loopback_communicator.h"

namespace ringmaster::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A membership source of `count` successive worlds. Records the reports about these worlds.
class Worlds final : public MembershipSource {
 public:
  explicit Worlds(int count) : count_(count) {}

  Result<World> AwaitWorld(control::Epoch after) override {
    if (after.number == count_) return Error{ErrorKind::kNotFound, "no other world comes"};
    return World{.epoch = {1, after.number + 1}, .rank = rank, .size = size};
  }
  bool Done() const override { return done; }
  void Watch(control::Epoch, OverCallback over) override { over_ = std::move(over); }
  void Unwatch() override { over_ = nullptr; }
  bool SwitchWanted(control::Epoch, int64_t) override { return false; }
  void Broken(const World& world, int, const std::string& reason) override {
    broken.push_back(std::to_string(world.epoch.number) + ": " + reason);
  }
  void AtBoundary(const World&, int64_t step) override { left_after.push_back(step); }
  void Report(const World&, const control::Progress&) override {}
  Result<bool> Finish(const World&, const control::Progress&) override { return true; }
  bool Leaving(control::Epoch) override { return leaves; }
  void Began(const World&, const Beginning& beginning) override {
    began.push_back(std::to_string(beginning.version.step) + beginning.text);
  }
  void Unprotected(const std::string& what, const std::string& reason) override {
    unprotected.push_back(what + ": " + reason);
  }

  void GiveUp() { over_("it is over"); }

  int rank = 0;
  int size = 1;
  bool done = false;
  bool leaves = false;
  std::vector<std::string> broken;
  std::vector<int64_t> left_after;
  std::vector<std::string> began;  // step and text of each report
  std::vector<std::string> unprotected;

 private:
  const int64_t count_;
  OverCallback over_;
};

// A sharded state. Each Sync() takes the last loss from `lost` and reports it, if there is any.
class Shards final : public ShardedState {
 public:
  Result<ShardedOutcome> Sync(const ShardedWorld& world) override {
    if (reads) read.push_back(world.load(world.adopted.version, 0, 1, {}));
    ShardedOutcome outcome;
    if (!lost.empty()) {
      outcome.lost = lost.back();
      lost.pop_back();
    }
    return outcome;
  }
  void Exclude() override {}
  void Applied(const LocalState&) override {}
  Result<void> HandOver(Communicator&, bool leaving, std::chrono::milliseconds) override {
    handed_over.push_back(leaving);
    return hand_over;
  }
  int64_t all_rows() const override { return 0; }
  ShardView view() const override { return {}; }
  uint64_t checksum() const override { return 77; }

  std::vector<std::string> lost;
  bool reads = false;
  std::vector<Result<void>> read;
  std::vector<bool> handed_over;  // for each call: whether this rank was leaving
  Result<void> hand_over;
};

class NoAudit final : public StepAudit {
 public:
  bool on() const override { return false; }
  void Entered(const World&, int64_t, const Adopted&, const std::string&) override {}
  void Begun(const World&, int64_t, Share) override {}
  void Applied(const World&, int64_t, Share, uint64_t, std::optional<uint64_t>) override {}
};

// Makes communicators. Those of the worlds up to `broken` fail, as if a rank was lost.
CommunicatorFactory FakeCommunicators(int broken) {
  return [broken](const World& world, Deadline) -> Result<std::unique_ptr<Communicator>> {
    world.waits_for(3);
    world.comes_to(control::ConnectStage::kMake);
    if (world.epoch.number > broken) {
      return std::unique_ptr<Communicator>(std::make_unique<LoopbackCommunicator>());
    }
    auto hub = std::make_shared<MemoryCommunicator::Hub>(1);
    hub->Break();
    return std::unique_ptr<Communicator>(std::make_unique<MemoryCommunicator>(std::move(hub), 0));
  };
}

struct EnteringRank {
  explicit EnteringRank(int worlds_to_come, int broken_worlds = 0,
                        Checkpointer* checkpointer = nullptr,
                        std::shared_ptr<RankPosition> position = std::make_shared<RankPosition>())
      : worlds(worlds_to_come),
        options{.timeout = std::chrono::milliseconds(40),  // short, so that the rank does not pause
                .position = std::move(position),
                .checkpointer = checkpointer},
        entry(worlds, FakeCommunicators(broken_worlds), {values}, audit, clock, options) {}

  std::vector<float> values = std::vector<float>(4);
  SystemClock clock;
  NoAudit audit;
  Worlds worlds;
  SessionOptions options;
  WorldEntry entry;
};

// Records the progress that a communicator reports while it connects.
struct Connecting final : RankPosition {
  void WaitsFor(int peer) override { said.push_back("waits for " + std::to_string(peer)); }
  void ComesTo(control::ConnectStage stage) override {
    said.push_back("comes to " + std::to_string(static_cast<int>(stage)));
  }
  std::vector<std::string> said;
};

LocalState Kept(StateOrigin origin, int64_t step) {
  return {.version = {.epoch = {1, 1}, .step = step}, .origin = origin};
}

TEST(WorldEntry, AWorldThatLosesARankIsReportedAndTheNextOneIsEntered) {
  EnteringRank rank(2, /*broken_worlds=*/1);

  const Result<void> joined = rank.entry.Join();

  ASSERT_TRUE(joined.ok()) << joined.error().message;
  EXPECT_EQ(rank.entry.world().epoch, (control::Epoch{1, 2}));
  EXPECT_THAT(rank.worlds.broken, ElementsAre("1: a rank went away"));
  EXPECT_EQ(rank.entry.end(), SessionEnd::kNone);
}

TEST(WorldEntry, LogsHowLongItTookToEnterAWorld) {
  InitLog("test", "info", LogFormat::kText);  // logs to stderr, which is captured
  EnteringRank rank(1);
  testing::internal::CaptureStderr();

  ASSERT_TRUE(rank.entry.Join().ok());

  const std::string log = testing::internal::GetCapturedStderr();
  const std::size_t millis = log.find(" millis=");
  ASSERT_NE(millis, std::string::npos) << log;
  EXPECT_LT(std::stoll(log.substr(millis + 8)), 60'000);
}

TEST(WorldEntry, TheStageOfConnectingIsTheRanksPosition) {
  const auto position = std::make_shared<Connecting>();
  EnteringRank rank(1, 0, nullptr, position);

  ASSERT_TRUE(rank.entry.Join().ok());

  EXPECT_THAT(position->said, ElementsAre("waits for 3", "comes to 2"));
}

TEST(WorldEntry, AWorldThatBrokeWithThisRanksDeviceIsItsLast) {
  EnteringRank rank(2, /*broken_worlds=*/1);
  int asked = 0;
  rank.options.device_works = [&]() -> Result<void> {
    if (++asked == 1) return {};
    return Error{ErrorKind::kUnavailable, "the GPU is gone"};
  };

  const Result<void> joined = rank.entry.Join();

  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.error().message, "the GPU is gone");
  EXPECT_EQ(rank.entry.world().epoch, (control::Epoch{1, 1}));
  EXPECT_THAT(rank.worlds.broken, ElementsAre("1: a rank went away")) << "the others go on";
}

TEST(WorldEntry, ReportsWhyTheLastWorldEndedIfNoOtherFollows) {
  EnteringRank lost(1, /*broken_worlds=*/1);
  EnteringRank done(1, /*broken_worlds=*/1);
  done.worlds.done = true;

  const Result<void> without_a_peer = lost.entry.Join();
  const Result<void> after_all = done.entry.Join();

  ASSERT_FALSE(without_a_peer.ok());
  EXPECT_EQ(without_a_peer.error().message, "a rank went away");
  EXPECT_EQ(lost.entry.end(), SessionEnd::kPeerLost);
  ASSERT_FALSE(after_all.ok());
  EXPECT_EQ(after_all.error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(done.entry.end(), SessionEnd::kDone);
}

TEST(WorldEntry, AStateThatMustNotBeTrainedOnEndsTheRankAndBlamesNone) {
  FakeCheckpointer keeper;
  keeper.kept = Error{ErrorKind::kInvalid, "the checkpoints are of another model"};
  EnteringRank rank(2, 0, &keeper);

  const Result<void> joined = rank.entry.Join();

  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(rank.worlds.broken, IsEmpty());
  EXPECT_THAT(keeper.committed, IsEmpty());
}

TEST(WorldEntry, ReportsWithWhatItsWorldBeganAndOnceNotThatOfATrainedState) {
  FakeCheckpointer keeper;
  keeper.kept = Kept(StateOrigin::kCheckpoint, 7);
  EnteringRank rank(2, 0, &keeper);

  ASSERT_TRUE(rank.entry.Join().ok());
  ASSERT_TRUE(rank.entry.resumed().has_value());
  rank.entry.Advance(/*excluded=*/false);
  rank.entry.LeaveAtBoundary();
  ASSERT_TRUE(rank.entry.Next(Error{}).ok());

  EXPECT_THAT(rank.worlds.began, ElementsAre("7"));
  EXPECT_THAT(rank.worlds.left_after, ElementsAre(8));
  EXPECT_THAT(rank.worlds.broken, IsEmpty());
  EXPECT_THAT(keeper.committed, ElementsAre(7, 8));
  EXPECT_EQ(keeper.worlds_ended, 1);
  EXPECT_FALSE(rank.entry.resumed().has_value());
}

TEST(WorldEntry, RankZeroReportsTheStateItsWorldBeganWith) {
  struct Case {
    const char* what;
    int rank;
    int64_t said_of;  // the step that the checkpointer's text describes
    bool keeps;
    std::vector<std::string> told;
  };
  const Case cases[] = {
      {"a sentence about it", 0, 7, true, {"7 of the day before"}},
      {"a sentence about another one", 0, 6, true, {"7"}},
      {"a sentence, and nothing is kept", 0, 7, false, {"7 of the day before"}},
      {"neither", 0, 6, false, {}},
      {"another rank", 1, 7, true, {}},
  };
  for (const Case& c : cases) {
    FakeCheckpointer keeper;
    keeper.kept = Kept(StateOrigin::kCheckpoint, 7);
    keeper.keeps = c.keeps;
    keeper.began_with = Beginning{.version = Kept(StateOrigin::kCheckpoint, c.said_of).version,
                                  .text = " of the day before"};
    EnteringRank rank(1, 0, &keeper);
    rank.worlds.rank = c.rank;

    ASSERT_TRUE(rank.entry.Join().ok()) << c.what;

    EXPECT_EQ(rank.worlds.began, c.told) << c.what;
  }
}

TEST(WorldEntry, ReportsThatItCannotReadACheckpointUntilItCan) {
  FakeCheckpointer keeper;
  keeper.unreadable = 2;
  keeper.kept = Kept(StateOrigin::kCheckpoint, 7);
  EnteringRank rank(1, 0, &keeper);

  ASSERT_TRUE(rank.entry.Join().ok());

  EXPECT_EQ(rank.entry.local().version.step, 7);
  EXPECT_THAT(rank.worlds.unprotected, ElementsAre("restore: the volume is away",
                                                   "restore: the volume is away", "restore: "));
}

TEST(WorldEntry, MakesAnotherJobsStateItsOwnBeforeItTrains) {
  FakeCheckpointer keeper;
  keeper.kept = Kept(StateOrigin::kOther, 5);
  EnteringRank rank(1, 0, &keeper);

  ASSERT_TRUE(rank.entry.Join().ok());

  EXPECT_EQ(keeper.asked_to_keep, 3);
  EXPECT_EQ(keeper.parts_written, 0);
  EXPECT_THAT(keeper.committed, ElementsAre(5));
}

TEST(WorldEntry, ReportsAllPartsWrittenOnceEveryRankHasWrittenItsOwn) {
  struct Case {
    int ranks;
    bool own_written;
    int said;
  };
  for (const Case& c : {Case{1, true, 2}, Case{1, false, 0}, Case{2, true, 0}}) {
    FakeCheckpointer keeper;
    keeper.kept = Kept(StateOrigin::kOther, 5);
    if (c.own_written) keeper.part_written = keeper.kept->version;
    EnteringRank rank(1, 0, &keeper);
    rank.worlds.size = c.ranks;

    ASSERT_TRUE(rank.entry.Join().ok());

    EXPECT_EQ(keeper.parts_written, c.said) << c.ranks;
  }
}

TEST(WorldEntry, RollsBackToACheckpointThatHasAllPartsOfAShardedState) {
  FakeCheckpointer keeper;
  keeper.kept = Kept(StateOrigin::kCheckpoint, 7);
  Shards shards;
  shards.lost = {"rows 0 to 9"};  // all ranks that had these rows are lost
  EnteringRank rank(2, 0, &keeper);
  ASSERT_TRUE(rank.entry.Join().ok());
  rank.entry.Advance(/*excluded=*/false);
  rank.options.sharded = &shards;
  rank.entry.LeaveAtBoundary();

  ASSERT_TRUE(rank.entry.Next(Error{}).ok());

  EXPECT_EQ(rank.entry.local().version.step, 7);
  EXPECT_THAT(keeper.distrusted, IsEmpty()) << "not a checkpoint lacked them";
  EXPECT_THAT(shards.handed_over, ElementsAre(false));
}

TEST(WorldEntry, WithoutACheckpointThatHasAllPartsAShardedStateIsLost) {
  FakeCheckpointer keeper;
  keeper.kept = Kept(StateOrigin::kCheckpoint, 7);
  Shards shards;
  shards.lost = {"rows 0 to 9"};
  EnteringRank rank(2, 0, &keeper);
  rank.options.sharded = &shards;

  const Result<void> joined = rank.entry.Join();

  ASSERT_FALSE(joined.ok());
  EXPECT_THAT(keeper.distrusted, ElementsAre(7)) << "it lacks them";
  EXPECT_EQ(joined.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(joined.error().message, HasSubstr("rows 0 to 9 of the sharded state after step 7"));
  EXPECT_THAT(rank.worlds.broken, IsEmpty()) << "no other rank is to blame";
}

TEST(WorldEntry, ReportsUnreadableRowsWhileTheFaultMayBeTemporary) {
  struct Case {
    Result<void> rows;
    std::vector<std::string> said;
  };
  const Case cases[] = {
      {{}, {}},
      {Error{ErrorKind::kUnavailable, "the volume is away"},
       {"restore: the volume is away", "restore: "}},
      {Error{ErrorKind::kInvalid, "the file is damaged"}, {}},
  };
  for (const Case& c : cases) {
    FakeCheckpointer keeper;
    keeper.rows = c.rows;
    Shards shards;
    shards.reads = true;
    EnteringRank rank(1, 0, &keeper);
    rank.options.sharded = &shards;

    ASSERT_TRUE(rank.entry.Join().ok());

    ASSERT_EQ(shards.read.size(), 1U);
    EXPECT_EQ(shards.read[0].ok(), c.rows.ok());
    EXPECT_EQ(rank.worlds.unprotected, c.said);
  }

  Shards shards;
  shards.reads = true;
  EnteringRank keeps_nothing(1);
  keeps_nothing.options.sharded = &shards;
  ASSERT_TRUE(keeps_nothing.entry.Join().ok());
  ASSERT_FALSE(shards.read.at(0).ok());
  EXPECT_EQ(shards.read[0].error().kind, ErrorKind::kInvalid);
}

TEST(WorldEntry, LeavesItsWorldAlsoWhereItCannotHandOverItsShare) {
  Shards shards;
  shards.hand_over = Error{ErrorKind::kUnavailable, "a rank went away"};
  EnteringRank rank(2);
  rank.options.sharded = &shards;
  ASSERT_TRUE(rank.entry.Join().ok());
  rank.worlds.leaves = true;

  rank.entry.LeaveAtBoundary();

  EXPECT_THAT(shards.handed_over, ElementsAre(true));
  EXPECT_THAT(rank.worlds.left_after, ElementsAre(0));
  EXPECT_THAT(rank.worlds.broken, IsEmpty());
}

TEST(WorldEntry, LooksOftenAtFirstAtWhatIsBeingWritten) {
  FakeCheckpointer keeper;
  keeper.kept = Kept(StateOrigin::kOther, 5);
  EnteringRank rank(1, 0, &keeper);
  rank.options.timeout = std::chrono::minutes(1);
  const auto begin = rank.clock.Now();

  ASSERT_TRUE(rank.entry.Join().ok());

  EXPECT_EQ(keeper.asked_to_keep, 3);
  EXPECT_LT(rank.clock.Now() - begin, PauseAfter(20, rank.options.timeout));
}

TEST(WorldEntry, PausesLongerEachTimeButNotForAsLongAsOthersWait) {
  using std::chrono::milliseconds;
  struct Case {
    int looks;
    milliseconds timeout;
    milliseconds pause;
  };
  for (const Case& c : {Case{-19, milliseconds(60'000), milliseconds(100)},
                        Case{1, milliseconds(60'000), milliseconds(100)},
                        Case{2, milliseconds(60'000), milliseconds(200)},
                        Case{6, milliseconds(60'000), milliseconds(3'200)},
                        Case{7, milliseconds(60'000), milliseconds(5'000)},
                        Case{1000, milliseconds(60'000), milliseconds(5'000)},
                        Case{7, milliseconds(8'000), milliseconds(2'000)},
                        Case{1, milliseconds(40), milliseconds(10)}}) {
    EXPECT_EQ(PauseAfter(c.looks, c.timeout), c.pause) << c.looks;
  }
}

TEST(WorldEntry, AWorldThatIsAbandonedMeanwhileIsLeftWithoutAReport) {
  FakeCheckpointer keeper;
  keeper.kept = Kept(StateOrigin::kOther, 5);
  EnteringRank rank(2, 0, &keeper);
  keeper.keeping = [&] {
    if (keeper.asked_to_keep == 1) rank.worlds.GiveUp();
  };

  ASSERT_TRUE(rank.entry.Join().ok());

  EXPECT_EQ(rank.entry.world().epoch, (control::Epoch{1, 2}));
  EXPECT_FALSE(rank.entry.WorldOver()());
  EXPECT_THAT(rank.worlds.broken, IsEmpty());
  EXPECT_EQ(keeper.worlds_ended, 1);
  EXPECT_EQ(keeper.asked_to_keep, 3);
}

}  // namespace
}  // namespace ringmaster::trainer
