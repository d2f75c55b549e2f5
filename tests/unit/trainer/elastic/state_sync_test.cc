#include "worker/trainer/elastic/state_sync.h"

#include <numeric>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/elastic/memory_communicator.h"

namespace ringmaster::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One rank's state before and after the sync, and the result of the sync.
struct Rank {
  LocalState held;
  float value = 0;  // value of all its parameters and velocities
  uint64_t fingerprint = 7;
  int broadcasts = -1;
  bool flip = false;
  // The results of its searches for a stored state, in order. Empty: the rank does not store
  // states.
  std::vector<Result<LocalState>> finds{};

  std::vector<float> parameters = std::vector<float>(100);
  std::vector<float> velocity = std::vector<float>(30);
  Result<Adopted> adopted = Error{};
  std::size_t largest_broadcast = 0;
  Deadline broadcast_deadline{};
  std::vector<int> paused{};  // the attempts after which the rank paused
  std::vector<int> moved{};   // numbers of pieces
};

constexpr std::size_t kPiece = 64;
constexpr std::chrono::seconds kTimeout{60};

void Sync(std::vector<Rank>& ranks) {
  const auto hub = std::make_shared<MemoryCommunicator::Hub>(static_cast<int>(ranks.size()));
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      Rank& rank = ranks[i];
      std::iota(rank.parameters.begin(), rank.parameters.end(), rank.value);
      std::iota(rank.velocity.begin(), rank.velocity.end(), -rank.value);
      const SystemClock clock;
      MemoryCommunicator communicator(hub, static_cast<int>(i), rank.broadcasts, rank.flip);
      StateSync::Options options{.fingerprint = rank.fingerprint,
                                 .timeout = kTimeout,
                                 .piece_bytes = kPiece,
                                 .moving = [&](int piece) { rank.moved.push_back(piece); }};
      if (!rank.finds.empty()) {
        options.look_again = [&, look = std::size_t{0}](const LocalState&) mutable {
          const Result<LocalState> found = rank.finds.at(look++);
          if (found.ok()) {
            const auto step = static_cast<float>(found->version.step);
            std::iota(rank.parameters.begin(), rank.parameters.end(), step);
          }
          return found;
        };
        options.pause = [&](int attempt) { rank.paused.push_back(attempt); };
      }
      StateSync sync({rank.parameters, rank.velocity}, rank.held, clock, options);
      rank.adopted = sync.Run(communicator);
      rank.largest_broadcast = communicator.largest_broadcast();
      rank.broadcast_deadline = communicator.broadcast_deadline();
    });
  }
}

Rank At(control::Epoch epoch, int64_t step, float value) {
  Rank rank;
  rank.held.version = {.epoch = epoch, .step = step};
  rank.held.origin = step > 0 ? StateOrigin::kTraining : StateOrigin::kStart;
  rank.value = value;
  return rank;
}

TEST(StateVersion, AHigherEpochWinsOverMoreSteps) {
  EXPECT_LT((StateVersion{{1, 9}, 100}), (StateVersion{{2, 1}, 7}));
  EXPECT_LT((StateVersion{{1, 1}, 7}), (StateVersion{{1, 2}, 6}));
  EXPECT_LT((StateVersion{{1, 1}, 6}), (StateVersion{{1, 1}, 7}));
  EXPECT_LT(StateVersion{}, (StateVersion{{1, 1}, 1}));
}

TEST(StateSync, EqualRanksSendNothing) {
  std::vector<Rank> ranks = {At({1, 1}, 5, 1), At({1, 1}, 5, 1)};

  Sync(ranks);

  for (const Rank& rank : ranks) {
    ASSERT_TRUE(rank.adopted.ok());
    EXPECT_EQ(rank.adopted->held.version, ranks[0].held.version);
    EXPECT_EQ(rank.adopted->source, -1);
    EXPECT_EQ(rank.largest_broadcast, 0U);
  }
}

TEST(StateSync, TheLowestRankOfTheHighestVersionSendsParametersAndVelocityInPieces) {
  std::vector<Rank> ranks = {At({}, 0, 1), At({1, 2}, 6, 2), At({1, 1}, 9, 3), At({1, 2}, 6, 2)};
  const Deadline begin = std::chrono::steady_clock::now();

  Sync(ranks);

  for (const Rank& rank : ranks) {
    ASSERT_TRUE(rank.adopted.ok());
    EXPECT_EQ(rank.adopted->held.version, (StateVersion{{1, 2}, 6}));
    EXPECT_EQ(rank.adopted->source, 1);
    EXPECT_EQ(rank.adopted->changed, rank.value != 2);
    EXPECT_EQ(rank.parameters, ranks[1].parameters);
    EXPECT_EQ(rank.velocity, ranks[1].velocity);
    EXPECT_EQ(rank.largest_broadcast, kPiece);
    EXPECT_GE(rank.broadcast_deadline, begin + kTimeout);
    EXPECT_THAT(rank.moved, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  }
}

const Error kAway{ErrorKind::kUnavailable, "the volume is away"};

LocalState Kept(int64_t step) {
  return {.version = {.epoch = {1, 1}, .step = step}, .origin = StateOrigin::kCheckpoint};
}

TEST(StateSync, OneRanksCheckpointIsEnoughIfNoRankHasTrained) {
  std::vector<Rank> ranks = {At({}, 0, 1), At({}, 0, 1), At({}, 0, 1)};
  ranks[0].finds = {kAway, kAway, LocalState{}};
  ranks[1].finds = {kAway, kAway, Kept(7)};
  ranks[2].finds = {kAway, kAway, kAway};

  Sync(ranks);

  for (const Rank& rank : ranks) {
    ASSERT_TRUE(rank.adopted.ok()) << rank.adopted.error().message;
    EXPECT_EQ(rank.adopted->held.version.step, 7);
    EXPECT_EQ(rank.adopted->source, 1);
    EXPECT_EQ(rank.parameters[0], 7);
    EXPECT_THAT(rank.paused, ElementsAre(0, 1)) << "while none could read it";
  }
}

TEST(StateSync, NoRankLooksAgainIfOneHasTrained) {
  std::vector<Rank> ranks = {At({1, 1}, 5, 1), At({}, 0, 2)};
  for (Rank& rank : ranks) rank.finds = {Kept(9)};

  Sync(ranks);

  for (const Rank& rank : ranks) {
    ASSERT_TRUE(rank.adopted.ok());
    EXPECT_EQ(rank.adopted->held.version.step, 5);
    EXPECT_EQ(rank.parameters[0], 1);
  }
}

TEST(StateSync, WhatMustNotBeBegunWithEndsIt) {
  std::vector<Rank> ranks = {At({}, 0, 1)};
  ranks[0].finds = {Error{ErrorKind::kInvalid, "it is of another model"}};

  Sync(ranks);

  ASSERT_FALSE(ranks[0].adopted.ok());
  EXPECT_EQ(ranks[0].adopted.error().message, "it is of another model");
  EXPECT_THAT(ranks[0].paused, IsEmpty());
}

TEST(StateSync, RefusesOtherStatesOfOneVersionAndOtherFlagsOnAllRanksAlike) {
  std::vector<Rank> fresh = {At({}, 0, 1), At({}, 0, 1), At({}, 0, 2)};
  std::vector<Rank> trained = {At({}, 0, 1), At({1, 1}, 5, 1), At({1, 1}, 5, 2)};
  std::vector<Rank> other_jobs = {At({1, 1}, 5, 1), At({1, 1}, 5, 2)};
  other_jobs[0].held.origin = StateOrigin::kOther;
  std::vector<Rank> flags = {At({}, 0, 1), At({}, 0, 1), At({}, 0, 1)};
  flags[1].fingerprint = 8;
  struct Case {
    std::vector<Rank>& ranks;
    const char* says;
  };
  const Case cases[] = {
      {fresh, "rank 2 has different parameters after the same 0 steps than rank 0"},
      {trained, "rank 2 has different parameters after the same 5 steps than rank 1"},
      {other_jobs, "rank 0 has different parameters after the same 5 steps than rank 1"},
      {flags, "rank 1 has other flags or other data"},
  };

  for (const Case& c : cases) {
    Sync(c.ranks);

    for (const Rank& rank : c.ranks) {
      ASSERT_FALSE(rank.adopted.ok());
      EXPECT_EQ(rank.adopted.error().kind, ErrorKind::kInvalid);
      EXPECT_THAT(rank.adopted.error().message, HasSubstr(c.says));
    }
  }
}

TEST(StateSync, ALossHalfWayLeavesTheStateUntouched) {
  for (const int broadcasts : {0, 3, 8}) {  // 7 pieces of parameters, 2 of velocity
    std::vector<Rank> ranks = {At({1, 1}, 5, 1), At({}, 0, 2), At({}, 0, 2)};
    ranks[2].broadcasts = broadcasts;

    Sync(ranks);

    EXPECT_FALSE(ranks[1].adopted.ok());
    EXPECT_EQ(ranks[1].parameters[0], 2);
    EXPECT_EQ(ranks[1].velocity[0], -2);
    EXPECT_EQ(ranks[0].parameters[0], 1);
  }
}

TEST(StateSync, AStateThatArrivesDamagedIsNotTakenOver) {
  std::vector<Rank> ranks = {At({1, 1}, 5, 1), At({}, 0, 2)};
  ranks[1].flip = true;

  Sync(ranks);

  ASSERT_FALSE(ranks[1].adopted.ok());
  EXPECT_EQ(ranks[1].adopted.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(ranks[1].adopted.error().message, HasSubstr("corrupted in transit"));
  EXPECT_EQ(ranks[1].parameters[0], 2);
}

}  // namespace
}  // namespace ringmaster::trainer
