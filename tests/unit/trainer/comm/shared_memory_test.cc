#include <array>
#include <csignal>
#include <cstring>
#include <latch>
#include <random>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/patience.h"
#include "tests/unit/trainer/comm/communicator_tests.h"
#include "tests/unit/trainer/memory_store.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "worker/trainer/comm/file_store.h"
#include "worker/trainer/comm/shared_memory/shared_memory_transport.h"

namespace ringmaster::trainer {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kFar{60};

// A communicator that uses only this transport.
class SharedMemoryCommunicator final : public TransportCommunicator {
 public:
  SharedMemoryCommunicator(const World& world, Deadline deadline,
                           AbandonedConnects& abandoned_connects)
      : TransportCommunicator(world, deadline, std::make_shared<SharedMemoryTransport>(),
                              abandoned_connects) {}
};

class SharedMemoryTest : public ::testing::Test {
 protected:
  AbandonedConnects abandoned_connects;
};

INSTANTIATE_TYPED_TEST_SUITE_P(InMemory, CommunicatorTest, SharedMemoryCommunicator);

// Any waiting thread may run the queued operations of others. No thread may block forever.
TEST_F(SharedMemoryTest, WaitersOnSeveralThreadsAllEnd) {
  RunRanks(2, [&](const World& world) {
    SharedMemoryCommunicator communicator(world, In(kFar), abandoned_connects);
    ASSERT_TRUE(communicator.Barrier(In(kFar))->Wait().ok());
    for (int round = 0; round < 50; ++round) {
      std::array<std::vector<float>, 4> buckets;
      std::array<WorkHandle, 4> works;
      for (std::size_t i = 0; i < works.size(); ++i) {
        buckets[i].assign(100, 1);
        works[i] = communicator.AllReduce(buckets[i], In(seconds(20)));
      }
      std::vector<std::jthread> waiters;
      waiters.reserve(works.size());
      for (const WorkHandle& work : works) {
        waiters.emplace_back([&work] { EXPECT_TRUE(work->Wait().ok()); });
      }
      waiters.clear();
      for (const std::vector<float>& bucket : buckets) ASSERT_EQ(bucket.back(), 2);
    }
  });
}

// If ranks had different results, their states would differ from then on.
TEST_F(SharedMemoryTest, EveryRankHasTheSameBits) {
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 400'000;
  std::array<std::vector<float>, kRanks> results;
  RunRanks(kRanks, [&](const World& world) {
    SharedMemoryCommunicator communicator(world, In(kFar), abandoned_connects);
    std::mt19937 random(static_cast<unsigned>(world.rank));
    std::normal_distribution<float> normal;
    std::vector<float>& values = results[static_cast<std::size_t>(world.rank)];
    values.resize(kCount);
    for (float& value : values) value = normal(random);

    ASSERT_TRUE(communicator.AllReduce(values, In(kFar))->Wait().ok());
  });

  for (const std::vector<float>& result : results) {
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), kCount * sizeof(float)), 0);
  }
}

TEST_F(SharedMemoryTest, NamesThePeerThatNeverCameWhereItIsOnlyOne) {
  for (const int absent : {1, 2}) {
    RunRanks(4, [&](const World& world) {
      // The first `absent` ranks are missing, including rank 0, which creates the memory.
      const bool comes = world.rank > 1 || (absent == 1 && world.rank == 1);
      if (!comes) return;
      SharedMemoryCommunicator communicator(world, In(seconds(1) * Patience()), abandoned_connects);

      EXPECT_FALSE(communicator.Barrier(In(kFar))->Wait().ok());

      EXPECT_EQ(communicator.LostPeer(), absent == 1 ? 0 : -1) << "on rank " << world.rank;
    });
  }
}

// Tests a rank that leaves after its part of an operation: the other rank can complete it.
TEST_F(SharedMemoryTest, ARankThatLeavesAfterItsPartFailsNoOther) {
  std::latch left(1);
  RunRanks(2, [&](const World& world) {
    auto communicator =
        std::make_unique<SharedMemoryCommunicator>(world, In(kFar), abandoned_connects);
    std::array<std::byte, 8> message{};
    ASSERT_TRUE(communicator->Barrier(In(kFar))->Wait().ok());
    if (world.rank == 0) {
      message.fill(std::byte{5});
      ASSERT_TRUE(communicator->Broadcast(message, 0, In(kFar))->Wait().ok());
      communicator.reset();
      left.count_down();
    } else {
      left.wait();
      EXPECT_TRUE(communicator->Broadcast(message, 0, In(kFar))->Wait().ok());
      EXPECT_EQ(message[7], std::byte{5});
    }
  });
}

TEST_F(SharedMemoryTest, IsAbandonedWhileItConnects) {
  World world;
  world.size = 2;
  world.store = std::make_shared<MemoryStore>();
  const auto start = steady_clock::now();
  {
    SharedMemoryCommunicator communicator(world, In(seconds(3) * Patience()), abandoned_connects);
    const WorkHandle work = communicator.Barrier(In(kFar));
    communicator.Abort("a newer epoch");
    EXPECT_EQ(work->Wait().error().kind, ErrorKind::kCancelled);
  }
  EXPECT_LT(steady_clock::now() - start, seconds(2) * Patience());
}

// Rank 1 is a separate process, which is killed between two operations. Rank 0 gets no message.
TEST_F(SharedMemoryTest, AKilledProcessEndsTheOthersAtOnce) {
  const TemporaryFolder folder;
  const auto world_of = [&](int rank) {
    World world;
    world.rank = rank;
    world.size = 2;
    world.store = *FileStore::Open(folder.path());
    return world;
  };
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    SharedMemoryCommunicator communicator(world_of(1), In(kFar), abandoned_connects);
    const bool met = communicator.Barrier(In(kFar))->Wait().ok();
    ::kill(::getpid(), met ? SIGKILL : SIGTERM);
    ::pause();
  }
  SharedMemoryCommunicator communicator(world_of(0), In(kFar), abandoned_connects);
  ASSERT_TRUE(communicator.Barrier(In(kFar))->Wait().ok());
  std::vector<float> values(8);
  const auto start = steady_clock::now();

  const Result<void> reduced = communicator.AllReduce(values, In(kFar))->Wait();

  ASSERT_FALSE(reduced.ok());
  EXPECT_EQ(reduced.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(reduced.error().message, ::testing::HasSubstr("rank 1 has left"));
  EXPECT_LT(steady_clock::now() - start, seconds(10));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST_F(SharedMemoryTest, NoRankSharesIfOneDoesNotWantTo) {
  RunRanks(3, [&](const World& world) {
    SharedMemoryTransport transport;

    const auto met = transport.Meet(world, /*want=*/world.rank != 1, In(kFar));

    ASSERT_TRUE(met.ok()) << met.error().message;
    ASSERT_TRUE(met->has_value());
    EXPECT_EQ(**met, "rank 1: it is disabled");
  });
}

// Simulates a rank on another machine, where the memory of rank 0 does not exist.
TEST_F(SharedMemoryTest, NoRankSharesIfOneCannotMapTheMemory) {
  RunRanks(3, [&](const World& world) {
    if (world.rank == 0) {
      const std::string elsewhere = std::to_string(::getpid()) + " 99999 00";
      ASSERT_TRUE(world.store->Set("shared-memory/offer/0", elsewhere).ok());
      ASSERT_TRUE(world.store->Set("shared-memory/mapped/0", "yes").ok());
      return;
    }
    SharedMemoryTransport transport;

    const auto met = transport.Meet(world, true, In(kFar));

    ASSERT_TRUE(met.ok()) << met.error().message;
    ASSERT_TRUE(met->has_value());
    EXPECT_THAT(**met, ::testing::HasSubstr("rank 1: while opening the shared memory"));
  });
}

TEST(Segment, IsTheSameMemoryForWhoOpensIt) {
  const auto made = Segment::Create(10'000);
  ASSERT_TRUE(made.ok()) << made.error().message;
  (*made)->memory()[9'999] = std::byte{7};

  const auto opened = Segment::Open((*made)->description(), 10'000);

  ASSERT_TRUE(opened.ok()) << opened.error().message;
  ASSERT_EQ((*opened)->memory().size(), 10'000U);
  EXPECT_NE((*opened)->memory().data(), (*made)->memory().data());
  EXPECT_EQ((*opened)->memory()[9'999], std::byte{7});
}

// A new segment may have the size and file descriptor number of an earlier segment.
TEST(Segment, IsNotTakenForAnEarlierOne) {
  auto made = Segment::Create(10'000);
  ASSERT_TRUE(made.ok());
  const std::string earlier = (*made)->description();
  made->reset();
  const auto later = Segment::Create(10'000);
  ASSERT_TRUE(later.ok());
  ASSERT_EQ(earlier.substr(0, earlier.rfind(' ')),
            (*later)->description().substr(0, earlier.rfind(' ')));

  const auto opened = Segment::Open(earlier, 10'000);

  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().message, ::testing::HasSubstr("belongs to other ranks"));
  EXPECT_FALSE(Segment::Open((*later)->description(), 20'000).ok()) << "another size";
  EXPECT_FALSE(Segment::Open("nothing", 10'000).ok());
}

// All ranks use the same mapping, so that ThreadSanitizer can detect races between them.
TEST(SharedCollectives, RanksTakeTurnsInTheMemory) {
  for (const int size : {2, 3}) {
    const SharedLayout layout(size);
    struct alignas(MeetingCell) Line {
      std::array<std::byte, sizeof(MeetingCell)> bytes{};
    };
    std::vector<Line> lines(layout.bytes() / sizeof(Line) + 1);
    const std::span<std::byte> memory(lines.front().bytes.data(), layout.bytes());
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([&, rank] {
        std::vector<PeerProcess> processes;
        for (int other = 0; other < size; ++other) processes.emplace_back(::getpid());
        SharedCollectives collectives(memory, rank, std::move(processes));
        std::vector<float> values(200'000);
        for (int round = 1; round <= 20; ++round) {
          values.assign(values.size(), static_cast<float>(round));
          collectives.AllReduce(std::span(values), ReduceOp::kSum, In(kFar));
          ASSERT_EQ(values.front(), static_cast<float>(size * round));
          ASSERT_EQ(values.back(), static_cast<float>(size * round));
          const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values).first(10));
          collectives.Broadcast(bytes, round % size, In(kFar));
          collectives.Barrier(In(kFar));
        }
      });
    }
  }
}

}  // namespace
}  // namespace ringmaster::trainer
