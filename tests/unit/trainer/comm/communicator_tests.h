#pragma once

// The tests that every communicator between ranks on CPUs must pass. gloo_communicator_test.cc and
// shared_memory_test.cc instantiate the suite with a type of communicator, whose constructor takes
// a World, the deadline for connecting, and an AbandonedConnects.

#include <chrono>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/trainer/memory_store.h"
#include "worker/trainer/comm/abandoned_connects.h"
#include "worker/trainer/comm/communicator.h"

namespace ringmaster::trainer {

template <typename Made>
class CommunicatorTest : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds kFar{60};
  using Clock = std::chrono::steady_clock;

  std::unique_ptr<Made> Make(const World& world) {
    return std::make_unique<Made>(world, In(kFar), abandoned_connects_);
  }

  // Returns small integers, so that every sum is exact in any order.
  static float Value(int rank, std::size_t index) {
    return static_cast<float>((static_cast<std::size_t>(rank) + 1) * (index % 7));
  }

 private:
  AbandonedConnects abandoned_connects_;
};

TYPED_TEST_SUITE_P(CommunicatorTest);

TYPED_TEST_P(CommunicatorTest, AllReduceSumsExactly) {
  for (const int size : {2, 3, 5}) {
    RunRanks(size, [&](const World& world) {
      const auto communicator = this->Make(world);
      for (const std::size_t count : {0U, 1U, 3U, 1000U, 100'001U, 300'000U}) {
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = this->Value(world.rank, i);

        const Result<void> reduced = communicator->AllReduce(values, In(this->kFar))->Wait();

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

TYPED_TEST_P(CommunicatorTest, RunsOperationsInOrderWithoutWaiting) {
  for (const bool connected : {false, true}) {
    for (const bool last_first : {false, true}) {
      RunRanks(3, [&](const World& world) {
        const auto communicator = this->Make(world);
        if (connected) {
          ASSERT_TRUE(communicator->Barrier(In(this->kFar))->Wait().ok());
        }
        std::vector<std::vector<float>> buckets(20);
        std::vector<WorkHandle> works;

        for (std::size_t i = 0; i < buckets.size(); ++i) {
          // Every third bucket is too large to run on the waiting thread.
          buckets[i].assign(i % 3 == 0 ? 300'000 : 1 + i * 100, static_cast<float>(i));
          works.push_back(communicator->AllReduce(buckets[i], In(this->kFar)));
        }

        for (std::size_t n = 0; n < works.size(); ++n) {
          const std::size_t i = last_first ? works.size() - 1 - n : n;
          ASSERT_TRUE(works[i]->Wait().ok());
          EXPECT_EQ(buckets[i].back(), 3 * static_cast<float>(i));
        }
      });
    }
  }
}

TYPED_TEST_P(CommunicatorTest, GathersBroadcastsAndMeets) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{700'001}}) {
    const auto of_rank = [&](int rank) {
      std::vector<std::byte> values(bytes);
      for (std::size_t i = 0; i < bytes; ++i) {
        values[i] = static_cast<std::byte>(64U * static_cast<unsigned>(rank) + i % 61);
      }
      return values;
    };
    RunRanks(3, [&](const World& world) {
      const auto communicator = this->Make(world);
      const std::vector<std::byte> mine = of_rank(world.rank);
      std::vector<std::byte> all(3 * bytes);
      std::vector<std::byte> message = mine;

      const auto gather = communicator->AllGather(mine, all, In(this->kFar));
      const auto broadcast = communicator->Broadcast(message, 1, In(this->kFar));
      const auto barrier = communicator->Barrier(In(this->kFar));

      EXPECT_TRUE(gather->Wait().ok());
      EXPECT_TRUE(broadcast->Wait().ok());
      EXPECT_TRUE(barrier->Wait().ok());
      std::vector<std::byte> expected;
      for (int rank = 0; rank < 3; ++rank) {
        const std::vector<std::byte> theirs = of_rank(rank);
        expected.insert(expected.end(), theirs.begin(), theirs.end());
      }
      EXPECT_EQ(all, expected);
      EXPECT_EQ(message, of_rank(1));
    });
  }
}

TYPED_TEST_P(CommunicatorTest, ReduceScatterGivesEachRankItsPiece) {
  for (const int size : {2, 3}) {
    for (const std::size_t count : {std::size_t{1000}, std::size_t{70'001}}) {
      RunRanks(size, [&](const World& world) {
        const auto communicator = this->Make(world);
        std::vector<float> all(static_cast<std::size_t>(size) * count);
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = this->Value(world.rank, i);
        std::vector<float> mine(count);

        const Result<void> reduced =
            communicator
                ->ReduceScatter(std::span(all), std::span(mine), ReduceOp::kMax, In(this->kFar))
                ->Wait();

        ASSERT_TRUE(reduced.ok()) << reduced.error().message;
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t index = static_cast<std::size_t>(world.rank) * count + i;
          ASSERT_EQ(mine[i], this->Value(size - 1, index));
        }
        EXPECT_EQ(all[1], this->Value(world.rank, 1)) << "the input is unchanged";
      });
    }
  }
}

TYPED_TEST_P(CommunicatorTest, AllToAllMovesUnevenPieces) {
  for (const std::size_t unit : {std::size_t{1}, std::size_t{150'001}}) {
    RunRanks(3, [&](const World& world) {
      const auto communicator = this->Make(world);
      // Rank r sends (r + to) units of value 10 * r + to to rank `to`.
      const int rank = world.rank;
      std::vector<std::size_t> to, from;
      std::vector<std::byte> send, expected;
      for (int other = 0; other < 3; ++other) {
        to.push_back(unit * static_cast<std::size_t>(rank + other));
        from.push_back(to.back());
        send.insert(send.end(), to.back(), static_cast<std::byte>(10 * rank + other));
        expected.insert(expected.end(), to.back(), static_cast<std::byte>(10 * other + rank));
      }
      std::vector<std::byte> received(expected.size());

      const Result<void> moved =
          communicator->AllToAll(send, to, received, from, In(this->kFar))->Wait();

      ASSERT_TRUE(moved.ok()) << moved.error().message;
      EXPECT_EQ(received, expected);
    });
  }
}

TYPED_TEST_P(CommunicatorTest, ASilentPeerEndsAtTheDeadlineAndBreaksTheWorld) {
  std::latch done(2);
  RunRanks(2, [&](const World& world) {
    const auto communicator = this->Make(world);
    std::vector<float> values(8);
    ASSERT_TRUE(communicator->Barrier(In(this->kFar))->Wait().ok());
    if (world.rank == 0) {
      const Result<void> first =
          communicator->AllReduce(values, In(std::chrono::milliseconds(100)))->Wait();
      const Result<void> second = communicator->AllReduce(values, In(this->kFar))->Wait();

      ASSERT_FALSE(first.ok());
      EXPECT_EQ(first.error().kind, ErrorKind::kTimeout);
      EXPECT_FALSE(second.ok());
    }
    done.arrive_and_wait();
    EXPECT_FALSE(communicator->Barrier(In(this->kFar))->Wait().ok());
  });
}

TYPED_TEST_P(CommunicatorTest, ALostPeerEndsTheOthersAtOnce) {
  for (const std::size_t count : {std::size_t{8}, std::size_t{1'000'000}}) {
    RunRanks(3, [&](const World& world) {
      const auto communicator = this->Make(world);
      std::vector<float> values(count);
      ASSERT_TRUE(communicator->Barrier(In(this->kFar))->Wait().ok());
      if (world.rank == 2) return;  // destroys its communicator
      const auto start = TestFixture::Clock::now();

      const Result<void> reduced = communicator->AllReduce(values, In(this->kFar))->Wait();

      EXPECT_FALSE(reduced.ok());
      EXPECT_LT(TestFixture::Clock::now() - start, this->kFar / 2);
    });
  }
}

TYPED_TEST_P(CommunicatorTest, AbortWakesAnOperationUnderWayOnBothSides) {
  for (const std::size_t count : {std::size_t{8}, std::size_t{1'000'000}}) {
    std::latch waiting(2);
    std::latch done(2);
    RunRanks(2, [&](const World& world) {
      const auto communicator = this->Make(world);
      std::vector<float> values(count);
      ASSERT_TRUE(communicator->Barrier(In(this->kFar))->Wait().ok());
      const auto start = TestFixture::Clock::now();
      if (world.rank == 0) {
        const WorkHandle work = communicator->AllReduce(values, In(this->kFar));
        waiting.arrive_and_wait();
        const std::jthread aborts([&] { communicator->Abort("a newer epoch"); });

        const Result<void> reduced = work->Wait();

        ASSERT_FALSE(reduced.ok());
        EXPECT_EQ(reduced.error().kind, ErrorKind::kCancelled);
        EXPECT_EQ(reduced.error().message, "a newer epoch");
        EXPECT_LT(TestFixture::Clock::now() - start, this->kFar / 2);
        done.arrive_and_wait();
      } else {
        waiting.arrive_and_wait();  // rank 0 is in its operation; this rank is silent
        done.arrive_and_wait();
        EXPECT_FALSE(communicator->AllReduce(values, In(this->kFar))->Wait().ok());
        EXPECT_LT(TestFixture::Clock::now() - start, this->kFar / 2);
      }
    });
  }
}

REGISTER_TYPED_TEST_SUITE_P(CommunicatorTest, AllReduceSumsExactly,
                            RunsOperationsInOrderWithoutWaiting, GathersBroadcastsAndMeets,
                            ReduceScatterGivesEachRankItsPiece, AllToAllMovesUnevenPieces,
                            ASilentPeerEndsAtTheDeadlineAndBreaksTheWorld,
                            ALostPeerEndsTheOthersAtOnce, AbortWakesAnOperationUnderWayOnBothSides);

}  // namespace ringmaster::trainer
