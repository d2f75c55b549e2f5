// Tests what a rank reports and records once the rank, or all ranks, have applied a step.

#include "worker/trainer/elastic/commit_log.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Events = std::vector<std::string>;

std::string StepOf(const LocalState& local) { return std::to_string(local.version.step); }

// These fakes record their calls in a common list.
class RecordingMembership final : public MembershipSource {
 public:
  explicit RecordingMembership(Events* events) : events_(events) {}
  Result<World> AwaitWorld(control::Epoch) override { return World{}; }
  void Watch(control::Epoch, OverCallback) override {}
  void Unwatch() override {}
  bool SwitchWanted(control::Epoch, int64_t) override { return false; }
  void Broken(const World&, int, const std::string&) override {}
  void AtBoundary(const World&, int64_t) override {}
  void Report(const World&, const control::Progress& progress) override {
    events_->push_back("report " + std::to_string(progress.step));
  }
  Result<bool> Finish(const World&, const control::Progress&) override { return true; }

 private:
  Events* const events_;
};

class RecordingKeeper final : public Checkpointer {
 public:
  explicit RecordingKeeper(Events* events) : events_(events) {}
  Result<LocalState> Restore(const LocalState& local, bool) override { return local; }
  const std::optional<Beginning>& beginning() const override { return beginning_; }
  std::optional<control::KeptCheckpoint> NewestKept(const StateVersion&) const override {
    return {};
  }
  bool KeepOther(const World&, const LocalState&) override { return true; }
  void Distrust(const StateVersion&, const std::string&) override {}
  bool SnapshotDue() const override { return false; }
  void Applied(const World&, const LocalState& local, bool snapshot) override {
    events_->push_back("keep applied " + StepOf(local) + (snapshot ? " in a snapshot" : ""));
  }
  void Committed(const World&, const LocalState& local, bool out_of_turn) override {
    events_->push_back("keep committed " + StepOf(local) + (out_of_turn ? " out of turn" : ""));
  }
  std::optional<StateVersion> PartWritten() const override { return {}; }
  bool PartFailed() const override { return false; }
  void PartsWritten(const StateVersion&) override {}
  void PartsFailed() override {}
  Result<void> LoadRows(const StateVersion&, int64_t, int64_t, std::span<float>) const override {
    return {};
  }
  void WorldEnded() override {}
  bool FinishPart(const World&, const LocalState&, const GivenUp&) override { return true; }
  void Finished(const World&, const LocalState&, const GivenUp&) override {}

 private:
  Events* const events_;
  std::optional<Beginning> beginning_;
};

class RecordingShards final : public ShardedState {
 public:
  explicit RecordingShards(Events* events) : events_(events) {}
  Result<ShardedOutcome> Sync(const ShardedWorld&) override { return ShardedOutcome{}; }
  void Exclude() override {}
  void Applied(const LocalState& held) override {
    events_->push_back("shard applied " + StepOf(held));
  }
  Result<void> HandOver(Communicator&, bool, std::chrono::milliseconds) override { return {}; }
  int64_t all_rows() const override { return 0; }
  ShardView view() const override { return {}; }
  uint64_t checksum() const override { return 77; }

 private:
  Events* const events_;
};

class RecordingMirror final : public StateMirror {
 public:
  explicit RecordingMirror(Events* events) : events_(events) {}
  void Pull() override { events_->emplace_back("pull"); }
  void Push() override { events_->emplace_back("push"); }

 private:
  Events* const events_;
};

class RecordingAudit final : public StepAudit {
 public:
  explicit RecordingAudit(Events* events) : events_(events) {}
  bool on() const override { return is_on; }
  void Entered(const World&, int64_t, const Adopted&, const std::string&) override {}
  void Begun(const World&, int64_t, Share) override {}
  void Applied(const World&, int64_t step, Share, uint64_t, std::optional<uint64_t> part) override {
    events_->push_back("audit " + std::to_string(step) +
                       (part ? " with part " + std::to_string(*part) : ""));
  }

  bool is_on = false;

 private:
  Events* const events_;
};

class RecordingPosition final : public RankPosition {
 public:
  explicit RecordingPosition(Events* events) : events_(events) {}
  void Enter(control::RankPhase phase, int) override {
    events_->emplace_back(control::kRankPhaseNames[static_cast<std::size_t>(phase)]);
  }

 private:
  Events* const events_;
};

class CommitLogTest : public testing::Test {
 protected:
  void Apply(int64_t step, int rank = 0, bool snapshot = false) {
    log.Applied(WorldOf(rank), Local(step), Share{}, {.step = step}, snapshot);
  }
  void Commit(int64_t step, int rank = 0) {
    log.Committed(WorldOf(rank), Local(step), control::RankPhase::kData);
  }
  Events TakeEvents() { return std::exchange(events, {}); }

  static World WorldOf(int rank) { return {.epoch = {1, 1}, .rank = rank, .size = 2}; }
  static LocalState Local(int64_t step) { return {.version = {.epoch = {1, 1}, .step = step}}; }

  Events events;
  RecordingMembership membership{&events};
  RecordingKeeper keeper{&events};
  RecordingShards shards{&events};
  RecordingMirror mirror{&events};
  RecordingAudit audit{&events};
  std::vector<float> values = std::vector<float>(4);
  SessionOptions options{.position = std::make_shared<RecordingPosition>(&events)};
  CommitLog log{membership, {values}, audit, options};
};

TEST_F(CommitLogTest, AStepIsReportedOnceItIsCommittedByRankZeroAlone) {
  Apply(5);
  EXPECT_THAT(TakeEvents(), IsEmpty());
  Commit(5);
  EXPECT_THAT(TakeEvents(), ElementsAre("report 5", "data"));
  Commit(5);
  EXPECT_THAT(TakeEvents(), ElementsAre("data")) << "it has been";

  Apply(6, /*rank=*/1);
  Commit(6, /*rank=*/1);

  EXPECT_THAT(TakeEvents(), ElementsAre("data"));
}

TEST_F(CommitLogTest, AStepOfTheWorldBeforeIsNotReported) {
  Apply(5);
  log.EnterWorld();
  Commit(5);

  EXPECT_THAT(TakeEvents(), ElementsAre("data"));
}

TEST_F(CommitLogTest, TheStateIsKeptIfThereIsACheckpointerAndAStateThatTakesLong) {
  options.checkpointer = &keeper;
  Apply(5);
  EXPECT_THAT(TakeEvents(), ElementsAre("evaluate", "keep applied 5", "update"));

  Commit(5);

  EXPECT_THAT(TakeEvents(), ElementsAre("report 5", "evaluate", "keep committed 5", "data"));

  Apply(6, /*rank=*/0, /*snapshot=*/true);
  EXPECT_THAT(TakeEvents(), testing::Contains("keep applied 6 in a snapshot"));
}

TEST_F(CommitLogTest, ACheckpointThatIsWantedIsOfTheNextStepAloneAndOfThisWorld) {
  options.checkpointer = &keeper;
  for (const bool another_world : {false, true}) {
    log.SetCheckpointRequested(true);
    if (another_world) log.EnterWorld();
    for (const int64_t step : {5, 6}) {
      Apply(step);
      Commit(step);
    }
    EXPECT_THAT(TakeEvents(),
                ElementsAre("evaluate", "keep applied 5", "update", "report 5", "evaluate",
                            another_world ? "keep committed 5" : "keep committed 5 out of turn",
                            "data", "evaluate", "keep applied 6", "update", "report 6", "evaluate",
                            "keep committed 6", "data"));
  }
}

TEST_F(CommitLogTest, TheAuditSeesTheDevicesStateAndItsShareOfTheRest) {
  options.mirror = &mirror;
  Apply(5);
  EXPECT_THAT(TakeEvents(), IsEmpty()) << "no audit asks for checksums";

  audit.is_on = true;
  Apply(6);
  EXPECT_THAT(TakeEvents(), ElementsAre("pull", "audit 6"));

  options.sharded = &shards;
  Apply(7);
  EXPECT_THAT(TakeEvents(), ElementsAre("shard applied 7", "pull", "audit 7 with part 77"));
}

}  // namespace
}  // namespace ringmaster::trainer
