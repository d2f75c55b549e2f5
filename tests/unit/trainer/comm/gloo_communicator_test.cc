#include "worker/trainer/comm/gloo/gloo_communicator.h"

#include <array>
#include <latch>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/patience.h"
#include "tests/unit/trainer/black_hole.h"
#include "tests/unit/trainer/comm/communicator_tests.h"
#include "tests/unit/trainer/memory_store.h"
#include "worker/trainer/comm/loopback_communicator.h"

namespace ringmaster::trainer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLong{60};

class GlooCommunicatorTest : public ::testing::Test {
 protected:
  AbandonedConnects abandoned_connects;
};

INSTANTIATE_TYPED_TEST_SUITE_P(OverGloo, CommunicatorTest, GlooCommunicator);

TEST_F(GlooCommunicatorTest, APeerThatNeverComesEndsAtTheDeadline) {
  World world;
  world.size = 2;
  world.store = std::make_shared<MemoryStore>();
  GlooCommunicator communicator(world, In(milliseconds(50)), abandoned_connects);
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
      GlooCommunicator communicator(world, In(seconds(1) * Patience()), abandoned_connects);

      EXPECT_FALSE(communicator.Barrier(In(kLong))->Wait().ok());

      EXPECT_EQ(communicator.LostPeer(), absent == 1 ? 3 : -1) << "on rank " << world.rank;
    });
  }
}

TEST_F(GlooCommunicatorTest, NamesThePeerThatPublishedItsAddressAndCannotBeReached) {
  const BlackHole hole;
  RunRanks(3, [&](const World& world) {
    if (world.rank == 2) {
      for (const char* rank : {"0", "1"}) {
        const auto theirs = world.store->Get({std::string("gloo/") + rank + "/2"}, In(kLong));
        ASSERT_TRUE(theirs.ok());
        const std::string address = hole.AddressLike(theirs->front());
        ASSERT_TRUE(world.store->Set(std::string("gloo/2/") + rank, address).ok());
      }
      return;
    }
    GlooCommunicator communicator(world, In(seconds(1) * Patience()), abandoned_connects);

    EXPECT_FALSE(communicator.Barrier(In(seconds(1) * Patience()))->Wait().ok());

    EXPECT_EQ(communicator.LostPeer(), 2) << "on rank " << world.rank;
  });
}

TEST_F(GlooCommunicatorTest, AnAbortNamesNoPeer) {
  World world;
  world.size = 2;
  world.store = std::make_shared<MemoryStore>();
  GlooCommunicator communicator(world, In(milliseconds(50)), abandoned_connects);
  communicator.Abort("a newer epoch");

  EXPECT_FALSE(communicator.Barrier(In(kLong))->Wait().ok());

  EXPECT_EQ(communicator.LostPeer(), -1);
}

TEST_F(GlooCommunicatorTest, AbortWakesASendThatASilentPeerDoesNotTake) {
  std::latch done(2);
  RunRanks(2, [&](const World& world) {
    GlooCommunicator communicator(world, In(kLong), abandoned_connects);
    std::vector<std::byte> bytes(64 << 20);  // more than the sockets can buffer
    ASSERT_TRUE(communicator.Barrier(In(kLong))->Wait().ok());
    const int root = 0;
    if (world.rank == root) {
      const WorkHandle sent = communicator.Broadcast(bytes, root, In(kLong));
      const auto start = std::chrono::steady_clock::now();
      communicator.Abort("a newer epoch");

      EXPECT_EQ(sent->Wait().error().kind, ErrorKind::kCancelled);
      EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2);
    }
    done.arrive_and_wait();  // rank 1 sends nothing until here
  });
}

TEST_F(GlooCommunicatorTest, IsAbandonedWhileItConnects) {
  World world;
  world.size = 2;
  world.store = std::make_shared<MemoryStore>();
  const auto start = std::chrono::steady_clock::now();
  {
    GlooCommunicator communicator(world, In(seconds(3) * Patience()), abandoned_connects);
    const WorkHandle work = communicator.Barrier(In(kLong));
    communicator.Abort("a newer epoch");
    EXPECT_EQ(work->Wait().error().kind, ErrorKind::kCancelled);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(2) * Patience());
  EXPECT_EQ(abandoned_connects.Hanging(), 1);
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
