// Tests which rank is blamed when a world makes no progress, and which ranks must not be blamed.

#include "worker/launcher/model/stall_watch.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

using namespace std::chrono_literals;
using control::RankPhase;
using control::RankPosition;

constexpr int64_t kStep = 50;  // the ranks' step in most tables

RankPosition At(RankPhase phase, int64_t step = kStep, int bucket = 0) {
  return {.entered = true,
          .step = step,
          .bucket = bucket,
          .phase = phase,
          .step_micros = 100'000,
          .own_micros = 80'000,
          .applied_millis = 0};
}

RankPosition Stopped(RankPosition position) {
  position.stopped = true;
  return position;
}

// Returns the position of a rank that has applied steps, but none in this world.
RankPosition Fresh(RankPosition position) {
  position.applied_millis = -1;
  return position;
}

// Returns the position of a process that has not applied a step.
RankPosition New(RankPosition position) {
  position.step_micros = 0;
  return Fresh(position);
}

RankPosition Connects(control::ConnectStage stage = control::ConnectStage::kBegin) {
  return Fresh(At(RankPhase::kConnect, kStep, static_cast<int>(stage)));
}

RankPosition NotEntered(RankPhase phase) {
  RankPosition position = At(phase);
  position.entered = false;
  return position;
}

struct Scene {
  explicit Scene(std::chrono::milliseconds floor = 2s) : watch(floor, 1s) {}

  // Lets the ranks train for `steps` steps of 100 ms each.
  void Trained(int ranks, int steps = 20) {
    watch.Begin(now, ranks);
    for (int step = 0; step < steps; ++step) {
      for (int rank = 0; rank < ranks; ++rank) Say(rank, At(RankPhase::kCompute, step));
      now += 100ms;
    }
  }
  void Say(int rank, RankPosition position) {
    position.rank = rank;
    watch.Report(now, position);
  }
  // Makes all ranks report these positions every 100 ms for `time`.
  void Stand(const std::vector<RankPosition>& positions, std::chrono::milliseconds time) {
    for (auto passed = 0ms; passed <= time; passed += 100ms) {
      for (std::size_t i = 0; i < positions.size(); ++i) Say(static_cast<int>(i), positions[i]);
      if (passed < time) now += 100ms;
    }
  }
  std::string Blamed() const {
    const auto judgement = watch.Judge(now);
    if (!judgement) return "nobody";
    std::string text;
    for (const int rank : judgement->ranks)
      text += (text.empty() ? "" : " ") + std::to_string(rank);
    return text;
  }

  Clock::Time now{std::chrono::hours(1)};
  StallWatch watch;
};

const RankPosition kReduces = At(RankPhase::kReduce);
const RankPosition kComputes = At(RankPhase::kCompute);
const RankPosition kLoads = At(RankPhase::kData);
const RankPosition kDone = At(RankPhase::kDone);
const RankPosition kMeets = Connects(control::ConnectStage::kMeet);
const RankPosition kMakes = Connects(control::ConnectStage::kMake);
const RankPosition kIsReady = Connects(control::ConnectStage::kReady);

TEST(StallWatch, BlamesTheRankThatTheOthersWaitFor) {
  struct Case {
    const char* name;
    std::vector<RankPosition> ranks;
    std::chrono::milliseconds stand;
    const char* blamed;
  };
  const Case cases[] = {
      {"not before the limit", {kReduces, kComputes, kReduces}, 1900ms, "nobody"},
      {"the one that computes", {kReduces, kComputes, kReduces}, 2000ms, "1"},
      {"also of two", {kReduces, kComputes}, 2000ms, "1"},
      {"the one whose data do not come", {kReduces, kReduces, kLoads}, 2000ms, "2"},
      {"the hindmost of two that do not wait", {kComputes, kLoads, kReduces}, 2000ms, "1"},
      {"a lower step counts for more",
       {At(RankPhase::kUpdate, kStep - 1), kComputes, kReduces, kReduces},
       2000ms,
       "0"},
      {"all compute, slowly", {kComputes, kComputes, kComputes}, 10min, "nobody"},
      {"all load, one further on", {kLoads, kLoads, kComputes}, 10min, "nobody"},
      {"all wait for each other", {kReduces, kReduces, kReduces}, 10min, "nobody"},
      {"one waits for an earlier bucket",
       {At(RankPhase::kReduce, kStep, 2), At(RankPhase::kReduce, kStep, 1),
        At(RankPhase::kReduce, kStep, 2)},
       2000ms,
       "1"},
      {"two wait for an earlier bucket: a lost connection, not a hang",
       {At(RankPhase::kReduce, kStep, 2), At(RankPhase::kReduce, kStep, 1),
        At(RankPhase::kReduce, kStep, 1)},
       10min,
       "nobody"},
      {"one is stopped where all wait", {kReduces, Stopped(kReduces), kReduces}, 2000ms, "1"},
      {"most are stopped", {kReduces, Stopped(kReduces), Stopped(kComputes)}, 2000ms, "1 2"},
      {"all are stopped",
       {Stopped(kReduces), Stopped(kReduces), Stopped(kReduces)},
       10min,
       "nobody"},
      {"a few at one place together",
       {kReduces, kComputes, kReduces, kComputes, kReduces},
       2000ms,
       "1 3"},
      {"a new process in its first step: not yet", {kReduces, New(kComputes)}, 59'900ms, "nobody"},
      {"in the end", {kReduces, New(kComputes)}, 60s, "1"},
      {"a new process that is stopped", {kReduces, Stopped(New(kComputes))}, 2000ms, "1"},
      {"the first step in this world: not yet",
       {Fresh(kReduces), Fresh(kComputes), Fresh(kReduces)},
       59'900ms,
       "nobody"},
      {"in the end", {Fresh(kReduces), Fresh(kComputes), Fresh(kReduces)}, 60s, "1"},
      {"one that is stopped in it",
       {Fresh(kReduces), Stopped(Fresh(kComputes)), Fresh(kReduces)},
       2000ms,
       "1"},
      {"one in the step after that while another waits in its first",
       {Fresh(kReduces), kComputes},
       2000ms,
       "1"},
      {"half of them at one place: not yet",
       {kReduces, kComputes, kReduces, kComputes},
       5900ms,
       "nobody"},
      {"half of them at one place: the youngest, later",
       {kReduces, kComputes, kReduces, kComputes},
       6000ms,
       "3"},
      {"one has left a world that broke",
       {At(RankPhase::kWait), kReduces, At(RankPhase::kWait)},
       2000ms,
       "1"},
      {"all have left it",
       {At(RankPhase::kWait), At(RankPhase::kWait), At(RankPhase::kWait)},
       10min,
       "nobody"},
      {"all have left it, one before the others",
       {At(RankPhase::kWait, kStep - 1), At(RankPhase::kWait), At(RankPhase::kWait)},
       10min,
       "nobody"},
      {"one does not come into the new world: not yet",
       {Connects(), NotEntered(RankPhase::kCompute), kMeets},
       9900ms,
       "nobody"},
      {"one does not come into the new world",
       {Connects(), NotEntered(RankPhase::kCompute), kMeets},
       10000ms,
       "1"},
      {"one still waits for the old world's end",
       {Connects(), Connects(), NotEntered(RankPhase::kReduce)},
       10000ms,
       "2"},
      {"all connect: what they say of each other decides",
       {Connects(), Connects(), Connects()},
       10min,
       "nobody"},
      {"NCCL starts on all of them", {kMakes, kMakes, kMakes}, 10min, "nobody"},
      {"it takes longer on one: not yet", {kIsReady, kMakes, kIsReady}, 59'900ms, "nobody"},
      {"in the end", {kIsReady, kMakes, kIsReady}, 60s, "1"},
      {"one connects while the others wait for the state: not yet",
       {Fresh(At(RankPhase::kAdopt)), kIsReady, Fresh(At(RankPhase::kAdopt))},
       59'900ms,
       "nobody"},
      {"in the end",
       {Fresh(At(RankPhase::kAdopt)), kIsReady, Fresh(At(RankPhase::kAdopt))},
       60s,
       "1"},
      {"measuring accuracy may take long",
       {kReduces, At(RankPhase::kEvaluate), kReduces},
       59900ms,
       "nobody"},
      {"but not for ever", {kReduces, At(RankPhase::kEvaluate), kReduces}, 60000ms, "1"},
      {"one is stopped in it",
       {kReduces, Stopped(At(RankPhase::kEvaluate)), kReduces},
       2000ms,
       "1"},
      {"all are done", {kDone, kDone, kDone}, 10min, "nobody"},
      {"all but one are done", {kDone, kDone, kReduces}, 2000ms, "2"},
  };
  for (const Case& c : cases) {
    Scene scene;
    scene.Trained(static_cast<int>(c.ranks.size()));
    scene.Stand(c.ranks, c.stand);
    EXPECT_EQ(scene.Blamed(), c.blamed) << c.name;
  }
}

TEST(StallWatch, TakesTenTimesTheMedianStepWhereThatIsLonger) {
  Scene scene;
  scene.Trained(2, 3);
  for (int step = 3; step < 40; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      RankPosition position = At(RankPhase::kCompute, step);
      position.step_micros = 500'000;
      scene.Say(rank, position);
    }
  }
  ASSERT_EQ(scene.watch.MedianStep(), 500ms);

  scene.Stand({kReduces, kComputes}, 4900ms);
  EXPECT_EQ(scene.Blamed(), "nobody");
  scene.Stand({kReduces, kComputes}, 100ms);
  EXPECT_EQ(scene.Blamed(), "1");
}

TEST(StallWatch, WaitsLongerBeforeItKnowsHowLongAStepTakes) {
  Scene scene;
  scene.Trained(2, 1);
  ASSERT_FALSE(scene.watch.MedianStep());

  scene.Stand({At(RankPhase::kReduce, 1), At(RankPhase::kCompute, 1)}, 59900ms);
  EXPECT_EQ(scene.Blamed(), "nobody");
  scene.Stand({At(RankPhase::kReduce, 1), At(RankPhase::kCompute, 1)}, 200ms);
  EXPECT_EQ(scene.Blamed(), "1");
}

TEST(StallWatch, KnowsTheMedianFromTheFifthStepOn) {
  for (const int steps : {4, 5}) {
    Scene scene;
    scene.Trained(1, steps);
    EXPECT_EQ(scene.watch.MedianStep().has_value(), steps == 5);
  }
}

TEST(StallWatch, KeepsTheMedianOverWorlds) {
  Scene scene;
  scene.Trained(3);
  scene.watch.Begin(scene.now, 2);
  EXPECT_EQ(scene.watch.MedianStep(), 100ms);
}

TEST(StallWatch, ARankThatHasMadeNoStepHasNoStepTime) {
  Scene scene;
  scene.watch.Begin(scene.now, 10);
  for (int rank = 0; rank < 10; ++rank) scene.Say(rank, New(kComputes));
  EXPECT_FALSE(scene.watch.MedianStep());

  RankPosition quick = At(RankPhase::kCompute, kStep + 1);
  quick.step_micros = 1;
  for (int rank = 0; rank < 10; ++rank) scene.Say(rank, quick);
  EXPECT_TRUE(scene.watch.MedianStep()) << "one microsecond is a time";
}

TEST(StallWatch, TakesTheMedianOfTheNewestSteps) {
  Scene scene;
  scene.watch.Begin(scene.now, 1);
  int64_t number = 0;
  const auto step = [&](int64_t micros) {
    RankPosition position = At(RankPhase::kCompute, ++number);
    position.step_micros = micros;
    scene.Say(0, position);
  };
  step(200'000);
  for (int i = 0; i < 32; ++i) step(100'000);
  for (int i = 0; i < 31; ++i) step(200'000);
  EXPECT_EQ(scene.watch.MedianStep(), 200ms) << "of 64";

  step(100'000);
  EXPECT_EQ(scene.watch.MedianStep(), 100ms) << "the oldest of 65 is forgotten";
}

TEST(StallWatch, AnyMoveIsASignOfLife) {
  Scene scene;
  scene.Trained(3);
  scene.Stand({kReduces, kComputes, kLoads}, 1900ms);
  scene.Stand({kReduces, kReduces, kLoads}, 1900ms);  // rank 1 has progressed
  EXPECT_EQ(scene.Blamed(), "nobody");
  scene.Stand({kReduces, kReduces, kLoads}, 100ms);
  EXPECT_EQ(scene.Blamed(), "2");
}

RankPosition Counts(int64_t launched, int64_t begun, RankPosition position = kReduces) {
  position.collectives = {launched, begun, control::CollectiveKind::kAllReduce};
  return position;
}

// Tests one device that hangs while all hosts wait for gradients.
TEST(StallWatch, BlamesTheRankThatHasGotToFewerCollectivesThanAllOthers) {
  struct Case {
    const char* name;
    std::vector<RankPosition> ranks;
    const char* blamed;
    const char* missing;
  };
  const RankPosition after = At(RankPhase::kReduce, kStep, 1);
  const Case cases[] = {
      {"its host has not launched one",
       {Counts(1205, 1204), Counts(1203, 1203), Counts(1204, 1204)},
       "1",
       "it never launched collective 1204 (allreduce) of this world, which all others did"},
      {"its device has not come to one",
       {Counts(9, 8), Counts(9, 8), Counts(9, 7)},
       "2",
       "its device never reached collective 8 (allreduce) of this world, which all others did"},
      {"it has launched none of this world's",
       {Counts(1, 0), Counts(0, 0), Counts(1, 0)},
       "1",
       "it never launched collective 1 of this world, which all others did"},
      {"all have got as far", {Counts(9, 8), Counts(9, 8), Counts(9, 8)}, "nobody", ""},
      {"two have not", {Counts(9, 8), Counts(9, 7), Counts(9, 7)}, "nobody", ""},
      {"one is being launched by another rank",
       {Counts(9, -1), Counts(9, 8), Counts(9, 7)},
       "nobody",
       ""},
      {"one does not count", {Counts(9, 8), kReduces, Counts(9, 7)}, "nobody", ""},
      {"all count from the start of a world",
       {Counts(0, 0), Counts(0, 0), Counts(0, 0)},
       "nobody",
       ""},
      {"one waits for an earlier bucket",
       {Counts(9, 8, after), Counts(9, 8), Counts(9, 7, after)},
       "1",
       ""},
      {"all are done",
       {Counts(9, 8, kDone), Counts(9, 8, kDone), Counts(8, 8, kDone)},
       "nobody",
       ""},
  };
  for (const Case& c : cases) {
    Scene scene;
    scene.Trained(static_cast<int>(c.ranks.size()));
    scene.Stand(c.ranks, 2s);
    EXPECT_EQ(scene.Blamed(), c.blamed) << c.name;
    const auto judgement = scene.watch.Judge(scene.now);
    EXPECT_EQ(judgement ? judgement->missing : "", c.missing) << c.name;
  }
}

TEST(StallWatch, ACollectiveThatBeginsMovesARank) {
  Scene scene;
  scene.Trained(2);
  scene.Stand({Counts(9, 8), Counts(9, 7)}, 1900ms);
  scene.Stand({Counts(9, 9), Counts(9, 8)}, 1900ms);
  EXPECT_EQ(scene.Blamed(), "nobody");
  scene.Stand({Counts(9, 9), Counts(9, 8)}, 100ms);
  EXPECT_EQ(scene.Blamed(), "1");
}

TEST(StallWatch, WritesOutWhereAWorldStandsStill) {
  Scene scene;
  scene.Trained(2);
  scene.Stand({Counts(9, 8), Counts(9, 7)}, 1900ms);
  EXPECT_FALSE(scene.watch.StalledSince(scene.now));
  scene.Stand({Counts(9, 8), Counts(9, 7)}, 100ms);
  EXPECT_EQ(scene.watch.StalledSince(scene.now), scene.now - 2s);
  EXPECT_EQ(scene.watch.Record(),
            "rank 1 at step 50, in phase 'reduce' of bucket 0, collectives launched 9, begun 7; "
            "rank 0 at step 50, in phase 'reduce' of bucket 0, collectives launched 9, begun 8");

  scene.Stand({kDone, kDone}, 2s);
  EXPECT_FALSE(scene.watch.StalledSince(scene.now)) << "no rank waits for another one";

  scene.Stand({Counts(0, 0), Counts(1, -1)}, 2s);
  EXPECT_EQ(scene.watch.Record(),
            "rank 0 at step 50, in phase 'reduce' of bucket 0, collectives launched 0, begun 0; "
            "rank 1 at step 50, in phase 'reduce' of bucket 0, collectives launched 1");
}

TEST(StallWatch, WritesOutTheSixteenRanksThatAreFurthestBehind) {
  Scene scene;
  scene.Trained(20);
  for (int rank = 0; rank < 20; ++rank) scene.Say(rank, At(RankPhase::kReduce, 100 - rank));

  const std::string record = scene.watch.Record();

  EXPECT_TRUE(record.starts_with("rank 19 at step 81, ")) << record;
  EXPECT_NE(record.find("; rank 4 at step 96"), std::string::npos) << record;
  EXPECT_EQ(record.find("rank 3 "), std::string::npos) << record;
}

TEST(StallWatch, ConnectingMovesARank) {
  Scene scene;
  scene.Trained(3);
  scene.Stand({kMeets, kMeets, kMeets}, 59s);
  scene.Stand({kMakes, kMakes, kMeets}, 59s);
  scene.Stand({kMakes, kMakes, kMakes}, 59s);
  scene.Stand({kIsReady, kIsReady, kMakes}, 59s);
  EXPECT_EQ(scene.Blamed(), "nobody");
  scene.Stand({kIsReady, kIsReady, kMakes}, 1s);
  EXPECT_EQ(scene.Blamed(), "2");
}

TEST(StallWatch, BlamesNoRankWhileAnotherDoesNotReport) {
  Scene scene;
  scene.Trained(3);
  scene.Stand({kReduces, kComputes, kReduces}, 3s);
  scene.now += 1s;
  ASSERT_EQ(scene.Blamed(), "1");
  scene.now += 100ms;
  scene.Say(0, kReduces);
  scene.Say(1, kComputes);
  EXPECT_EQ(scene.Blamed(), "nobody") << "rank 2 has not been heard for longer than a word holds";

  scene.watch.Begin(scene.now, 3);
  scene.Stand({kReduces, kComputes}, 1min);
  EXPECT_EQ(scene.Blamed(), "nobody") << "rank 2 has never said where it stands";
}

TEST(StallWatch, ReportsWhichRanksCannotConnect) {
  const auto to = [](int peer, RankPosition position) {
    position.peer = peer;
    return position;
  };
  const RankPosition to_2 = to(2, Connects());
  const RankPosition to_1 = to(1, Connects());
  const RankPosition connected = Connects();
  using Peers = std::map<int, int>;
  struct Case {
    const char* name;
    std::vector<RankPosition> ranks;
    std::chrono::milliseconds stand;
    Peers peers;
  };
  const Case cases[] = {
      {"not yet", {connected, to_2, to_1}, 9900ms, {}},
      {"a pair", {connected, to_2, to_1}, 10000ms, {{1, 2}, {2, 1}}},
      {"one of a pair knows", {connected, to_2, connected}, 10000ms, {{1, 2}}},
      {"nobody knows", {connected, connected, connected}, 1min, {}},
      {"one has not come", {connected, to_2, NotEntered(RankPhase::kWait)}, 1min, {}},
      {"one is stopped", {connected, to_2, Stopped(connected)}, 1min, {}},
      {"one is further on", {At(RankPhase::kAdopt), to_2, to_1}, 1min, {}},
      {"all wait for the plan", {kMeets, to(0, kMeets), to(0, kMeets)}, 10s, {{1, 0}, {2, 0}}},
      {"which one has not begun to wait for", {kMeets, to(0, kMeets), connected}, 1min, {}},
      {"NCCL starts", {kMakes, kMakes, kMakes}, 1min, {}},
  };
  for (const Case& c : cases) {
    Scene scene;
    scene.Trained(3);
    scene.Stand(c.ranks, c.stand);
    EXPECT_EQ(scene.watch.CannotConnect(scene.now), c.peers) << c.name;
  }
}

TEST(StallWatch, BlamesNoRankByTimesBeforeALateTick) {
  Scene scene;
  scene.Trained(3);
  scene.Stand({kReduces, kComputes, kReduces}, 1900ms);
  scene.watch.Restart(scene.now);
  scene.Stand({kReduces, kComputes, kReduces}, 1900ms);
  EXPECT_EQ(scene.Blamed(), "nobody");
  scene.Stand({kReduces, kComputes, kReduces}, 100ms);
  EXPECT_EQ(scene.Blamed(), "1");
}

TEST(StallWatch, BlamesNoRankIfItIsDisabledOrAlone) {
  Scene off(0ms);
  off.Trained(3);
  off.Stand({kReduces, kComputes, kReduces}, 10min);
  EXPECT_EQ(off.Blamed(), "nobody");
  EXPECT_FALSE(off.watch.StalledSince(off.now));
  RankPosition waits = Connects();
  waits.peer = 0;
  off.Stand({Connects(), waits, waits}, 10min);
  EXPECT_TRUE(off.watch.CannotConnect(off.now).empty());

  Scene alone;
  alone.Trained(1);
  alone.Stand({kComputes}, 10min);
  EXPECT_EQ(alone.Blamed(), "nobody");
}

TEST(StallWatch, ReportsARanksPosition) {
  Scene scene;
  scene.Trained(2);
  RankPosition position = Stopped(At(RankPhase::kReduce, 41, 3));
  position.peer = 0;
  scene.Say(1, position);
  EXPECT_EQ(scene.watch.PlaceOf(1),
            "at step 41, in phase 'reduce' of bucket 3, stopped by a signal, waiting for rank 0");

  scene.Say(0, kMeets);
  EXPECT_EQ(scene.watch.PlaceOf(0),
            "at step 50, in phase 'connect' where it agrees with its peers on the method");
  scene.Say(0, kMakes);
  EXPECT_EQ(scene.watch.PlaceOf(0),
            "at step 50, in phase 'connect' where it creates its communicator");
  scene.Say(0, Connects());
  EXPECT_EQ(scene.watch.PlaceOf(0), "at step 50, in phase 'connect'");
}

}  // namespace
}  // namespace ringmaster::launcher
