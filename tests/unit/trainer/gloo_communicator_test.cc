#include "worker/trainer/comm/gloo_communicator.h"

#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <latch>
#include <vector>

#include "tests/fakes/fake_clock.h"
#include "tests/unit/trainer/black_hole.h"
#include "tests/unit/trainer/memory_store.h"
#include "worker/trainer/comm/gather_texts.h"
#include "worker/trainer/comm/loopback_communicator.h"
#include "worker/trainer/timeline/clock_alignment.h"

namespace ringmaster::trainer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLong{60};

class GlooCommunicatorTest : public ::testing::Test {
 protected:
  LeftBehind left_behind;
};

// Small integers: every sum is exact, whatever the order.
float Value(int rank, std::size_t index) {
  return static_cast<float>((static_cast<std::size_t>(rank) + 1) * (index % 7));
}

TEST_F(GlooCommunicatorTest, AllReduceSumsExactly) {
  for (const int size : {2, 3, 5}) {
    RunRanks(size, [&](const World& world) {
      GlooCommunicator communicator(world, In(kLong), left_behind);
      for (const std::size_t count : {1U, 3U, 1000U, 100'001U, 300'000U}) {
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = Value(world.rank, i);

        const Result<void> reduced = communicator.AllReduce(values, In(kLong))->Wait();

        ASSERT_TRUE(reduced.ok()) << reduced.error().message;
        const int factor = size * (size + 1) / 2;
        int wrong = 0;
        for (std::size_t i = 0; i < count; ++i) {
          if (values[i] != static_cast<float>(factor) * static_cast<float>(i % 7)) ++wrong;
        }
        EXPECT_EQ(wrong, 0) << "of " << count << " on rank " << world.rank << " of " << size;
      }
    });
  }
}

TEST_F(GlooCommunicatorTest, RunsOperationsInOrderWithoutWaiting) {
  RunRanks(3, [&](const World& world) {
    GlooCommunicator communicator(world, In(kLong), left_behind);
    std::array<std::vector<float>, 20> buckets;
    std::vector<WorkHandle> works;

    for (std::size_t i = 0; i < buckets.size(); ++i) {
      buckets[i].assign(1 + i * 100, static_cast<float>(i));
      works.push_back(communicator.AllReduce(buckets[i], In(kLong)));
    }

    for (std::size_t i = 0; i < buckets.size(); ++i) {
      ASSERT_TRUE(works[i]->Wait().ok());
      EXPECT_EQ(buckets[i].back(), 3 * static_cast<float>(i));
    }
  });
}

TEST_F(GlooCommunicatorTest, GathersBroadcastsAndMeets) {
  RunRanks(3, [&](const World& world) {
    GlooCommunicator communicator(world, In(kLong), left_behind);
    const std::array<int, 2> mine{world.rank, 10 * world.rank};
    std::array<int, 6> all{};
    std::array<int, 4> message{};
    if (world.rank == 1) message = {4, 3, 2, 1};

    const auto gather = communicator.AllGather(std::as_bytes(std::span(mine)),
                                               std::as_writable_bytes(std::span(all)), In(kLong));
    const auto broadcast =
        communicator.Broadcast(std::as_writable_bytes(std::span(message)), 1, In(kLong));
    const auto barrier = communicator.Barrier(In(kLong));

    EXPECT_TRUE(gather->Wait().ok());
    EXPECT_TRUE(broadcast->Wait().ok());
    EXPECT_TRUE(barrier->Wait().ok());
    EXPECT_THAT(all, ::testing::ElementsAre(0, 0, 1, 10, 2, 20));
    EXPECT_THAT(message, ::testing::ElementsAre(4, 3, 2, 1));
  });
}

TEST_F(GlooCommunicatorTest, ReduceScatterGivesEachRankItsPiece) {
  for (const int size : {2, 3}) {
    RunRanks(size, [&](const World& world) {
      GlooCommunicator communicator(world, In(kLong), left_behind);
      const auto ranks = static_cast<std::size_t>(size);
      std::vector<float> all(ranks * 1000);
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = Value(world.rank, i);
      std::vector<float> mine(1000);

      const Result<void> reduced =
          communicator.ReduceScatter(std::span(all), std::span(mine), ReduceOp::kMax, In(kLong))
              ->Wait();

      ASSERT_TRUE(reduced.ok()) << reduced.error().message;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        const std::size_t index = static_cast<std::size_t>(world.rank) * 1000 + i;
        ASSERT_EQ(mine[i], Value(size - 1, index));
      }
      EXPECT_EQ(all[1], Value(world.rank, 1)) << "the input is unchanged";
    });
  }
}

TEST_F(GlooCommunicatorTest, AllToAllMovesUnevenPieces) {
  RunRanks(3, [&](const World& world) {
    GlooCommunicator communicator(world, In(kLong), left_behind);
    // Rank r sends r + to bytes of value 10 * r + to.
    const int rank = world.rank;
    std::vector<std::size_t> to, from;
    std::vector<std::byte> send, expected;
    for (int other = 0; other < 3; ++other) {
      to.push_back(static_cast<std::size_t>(rank + other));
      from.push_back(to.back());
      send.insert(send.end(), to.back(), static_cast<std::byte>(10 * rank + other));
      expected.insert(expected.end(), to.back(), static_cast<std::byte>(10 * other + rank));
    }
    std::vector<std::byte> received(expected.size());

    const Result<void> moved = communicator.AllToAll(send, to, received, from, In(kLong))->Wait();

    ASSERT_TRUE(moved.ok()) << moved.error().message;
    EXPECT_EQ(received, expected);
  });
}

TEST_F(GlooCommunicatorTest, TextsComeTogetherOnRankZero) {
  RunRanks(3, [&](const World& world) {
    GlooCommunicator communicator(world, In(kLong), left_behind);

    const auto texts = GatherTexts(
        communicator, std::string(static_cast<std::size_t>(world.rank), 'x'), In(kLong));

    ASSERT_TRUE(texts.ok()) << texts.error().message;
    if (world.rank == 0) {
      EXPECT_THAT(*texts, ::testing::ElementsAre("", "x", "xx"));
    } else {
      EXPECT_TRUE(texts->empty());
    }
  });
}

TEST_F(GlooCommunicatorTest, RanksAgreeOnOneClock) {
  RunRanks(3, [&](const World& world) {
    GlooCommunicator communicator(world, In(kLong), left_behind);
    // A clock of its own for each rank.
    FakeClock clock;
    clock.Advance(seconds(100) * world.rank);

    const auto offset = AlignClocks(communicator, clock, 7000, In(kLong));

    ASSERT_TRUE(offset.ok()) << offset.error().message;
    EXPECT_EQ(*offset, 7000 - 100'000'000'000 * world.rank) << "rank 0 keeps its own";
  });
}

TEST_F(GlooCommunicatorTest, APeerThatNeverComesEndsAtTheDeadline) {
  World world;
  world.size = 2;
  world.store = std::make_shared<MemoryStore>();
  GlooCommunicator communicator(world, In(milliseconds(50)), left_behind);
  std::vector<float> values(8);

  const Result<void> reduced = communicator.AllReduce(values, In(kLong))->Wait();

  ASSERT_FALSE(reduced.ok());
  EXPECT_EQ(reduced.error().kind, ErrorKind::kTimeout);
  EXPECT_THAT(reduced.error().message, ::testing::HasSubstr("connecting rank 0 of 2"));
}

TEST_F(GlooCommunicatorTest, NamesThePeerThatNeverCameWhereItIsOnlyOne) {
  for (const int absent : {1, 2}) {
    RunRanks(4, [&](const World& world) {
      const bool comes = world.rank < 2 || (absent == 1 && world.rank == 2);
      if (!comes) return;
      GlooCommunicator communicator(world, In(seconds(1)), left_behind);

      EXPECT_FALSE(communicator.Barrier(In(kLong))->Wait().ok());

      EXPECT_EQ(communicator.LostPeer(), absent == 1 ? 3 : -1) << "on rank " << world.rank;
    });
  }
}

TEST_F(GlooCommunicatorTest, NamesThePeerThatPublishedItsAddressAndCannotBeReached) {
  const BlackHole ghost;
  RunRanks(3, [&](const World& world) {
    if (world.rank == 2) {
      for (const char* rank : {"0", "1"}) {
        const auto theirs = world.store->Get({std::string("gloo/") + rank + "/2"}, In(kLong));
        ASSERT_TRUE(theirs.ok());
        const std::string address = ghost.AddressLike(theirs->front());
        ASSERT_TRUE(world.store->Set(std::string("gloo/2/") + rank, address).ok());
      }
      return;
    }
    GlooCommunicator communicator(world, In(seconds(1)), left_behind);

    EXPECT_FALSE(communicator.Barrier(In(seconds(1)))->Wait().ok());

    EXPECT_EQ(communicator.LostPeer(), 2) << "on rank " << world.rank;
  });
}

TEST_F(GlooCommunicatorTest, AnAbortNamesNobody) {
  World world;
  world.size = 2;
  world.store = std::make_shared<MemoryStore>();
  GlooCommunicator communicator(world, In(milliseconds(50)), left_behind);
  communicator.Abort("a newer epoch");

  EXPECT_FALSE(communicator.Barrier(In(kLong))->Wait().ok());

  EXPECT_EQ(communicator.LostPeer(), -1);
}

TEST_F(GlooCommunicatorTest, ASilentPeerEndsAtTheDeadlineAndBreaksTheWorld) {
  std::latch done(2);
  RunRanks(2, [&](const World& world) {
    GlooCommunicator communicator(world, In(kLong), left_behind);
    std::vector<float> values(8);
    ASSERT_TRUE(communicator.Barrier(In(kLong))->Wait().ok());
    if (world.rank == 0) {
      const Result<void> first = communicator.AllReduce(values, In(milliseconds(100)))->Wait();
      const Result<void> second = communicator.AllReduce(values, In(kLong))->Wait();

      EXPECT_FALSE(first.ok());
      EXPECT_FALSE(second.ok());
    }
    done.arrive_and_wait();
  });
}

TEST_F(GlooCommunicatorTest, ALostPeerEndsTheOthersAtOnce) {
  RunRanks(3, [&](const World& world) {
    auto communicator = std::make_unique<GlooCommunicator>(world, In(kLong), left_behind);
    std::vector<float> values(8);
    ASSERT_TRUE(communicator->Barrier(In(kLong))->Wait().ok());
    if (world.rank == 2) return;  // its sockets close with it
    const auto start = std::chrono::steady_clock::now();

    const Result<void> reduced = communicator->AllReduce(values, In(kLong))->Wait();

    EXPECT_FALSE(reduced.ok());
    EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2);
  });
}

TEST_F(GlooCommunicatorTest, AbortWakesAnOperationUnderWayOnBothSides) {
  std::latch waiting(2);
  std::latch done(2);
  RunRanks(2, [&](const World& world) {
    GlooCommunicator communicator(world, In(kLong), left_behind);
    std::vector<float> values(8);
    ASSERT_TRUE(communicator.Barrier(In(kLong))->Wait().ok());
    const auto start = std::chrono::steady_clock::now();
    if (world.rank == 0) {
      const WorkHandle work = communicator.AllReduce(values, In(kLong));
      waiting.arrive_and_wait();
      communicator.Abort("a newer epoch");

      const Result<void> reduced = work->Wait();

      ASSERT_FALSE(reduced.ok());
      EXPECT_EQ(reduced.error().kind, ErrorKind::kCancelled);
      EXPECT_EQ(reduced.error().message, "a newer epoch");
    } else {
      waiting.arrive_and_wait();  // rank 0 is in its operation, this rank is silent
      done.arrive_and_wait();
      EXPECT_FALSE(communicator.AllReduce(values, In(kLong))->Wait().ok());
      EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2);
      return;
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2);
    done.arrive_and_wait();
  });
}

TEST_F(GlooCommunicatorTest, AbortWakesASendThatASilentPeerDoesNotTake) {
  std::latch done(2);
  RunRanks(2, [&](const World& world) {
    GlooCommunicator communicator(world, In(kLong), left_behind);
    std::vector<std::byte> bytes(64 << 20);  // more than the sockets hold
    ASSERT_TRUE(communicator.Barrier(In(kLong))->Wait().ok());
    const int root = 0;
    if (world.rank == root) {
      const WorkHandle sent = communicator.Broadcast(bytes, root, In(kLong));
      const auto start = std::chrono::steady_clock::now();
      communicator.Abort("a newer epoch");

      EXPECT_EQ(sent->Wait().error().kind, ErrorKind::kCancelled);
      EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2);
    }
    done.arrive_and_wait();  // rank 1 is silent until here
  });
}

TEST_F(GlooCommunicatorTest, IsAbandonedWhileItConnects) {
  World world;
  world.size = 2;
  world.store = std::make_shared<MemoryStore>();
  const auto start = std::chrono::steady_clock::now();
  {
    GlooCommunicator communicator(world, In(seconds(3)), left_behind);
    const WorkHandle work = communicator.Barrier(In(kLong));
    communicator.Abort("a newer epoch");
    EXPECT_EQ(work->Wait().error().kind, ErrorKind::kCancelled);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(2));
  EXPECT_EQ(left_behind.Hanging(), 1);
}

TEST(LoopbackCommunicator, IsAWorldOfOne) {
  LoopbackCommunicator communicator;
  std::array<float, 2> values{1, 2};
  std::array<float, 2> all{};

  EXPECT_TRUE(communicator.AllReduce(values, In(kLong))->Wait().ok());
  EXPECT_TRUE(communicator
                  .AllGather(std::as_bytes(std::span(values)),
                             std::as_writable_bytes(std::span(all)), In(kLong))
                  ->Wait()
                  .ok());
  EXPECT_THAT(values, ::testing::ElementsAre(1, 2));
  EXPECT_EQ(all, values);
  communicator.Abort("over");
  EXPECT_EQ(communicator.Barrier(In(kLong))->Wait().error().kind, ErrorKind::kCancelled);
}

}  // namespace
}  // namespace ringmaster::trainer
