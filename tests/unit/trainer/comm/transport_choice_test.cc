#include "worker/trainer/comm/host/transport_choice.h"

#include <cstring>
#include <latch>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/patience.h"
#include "tests/unit/trainer/memory_store.h"

namespace ringmaster::trainer {
namespace {

constexpr std::chrono::seconds kPatience{60};

// Runs ranks on one machine, each with a communicator for the transport that `choice` returns.
void RunOnOneMachine(
    int size, const std::function<HostTransport(int rank)>& choice,
    const std::function<void(const World& world, Communicator& communicator)>& rank_main,
    std::chrono::seconds connecting = kPatience) {
  AbandonedConnects abandoned_connects;
  std::latch done(size);
  RunRanks(size, [&](World world) {
    world.one_machine = true;
    auto made = MakeHostCommunicator(world, In(connecting), abandoned_connects, choice(world.rank));
    EXPECT_TRUE(made.ok()) << made.error().message;
    if (made.ok()) rank_main(world, **made);
    done.arrive_and_wait();  // closing Gloo loses data that other ranks have not read
  });
}

// Returns, for each rank, the sums of random numbers that are the same in each call.
std::vector<std::vector<float>> Reduced(int size, std::size_t count, HostTransport transport) {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(size));
  RunOnOneMachine(
      size, [&](int) { return transport; },
      [&](const World& world, Communicator& communicator) {
        std::mt19937 random(static_cast<unsigned>(world.rank));
        std::normal_distribution<float> normal;
        std::vector<float>& values = results[static_cast<std::size_t>(world.rank)];
        for (std::size_t i = 0; i < count; ++i) values.push_back(normal(random));

        const Result<void> reduced = communicator.AllReduce(values, In(kPatience))->Wait();

        EXPECT_TRUE(reduced.ok()) << NameOf(transport) << ": " << reduced.error().message;
      });
  return results;
}

// A job has the same result with and without shared memory, and can be replayed with either.
TEST(TransportChoice, SumsHaveTheSameBitsInMemoryAndOverGloo) {
  for (const int size : {2, 3, 4}) {
    for (const std::size_t count : {1000U, 131'072U, 131'073U, 200'003U, 1'300'001U}) {
      const auto gloo = Reduced(size, count, HostTransport::kGloo);
      const auto memory = Reduced(size, count, HostTransport::kSharedMemory);

      for (std::size_t rank = 0; rank < gloo.size(); ++rank) {
        EXPECT_EQ(std::memcmp(gloo[rank].data(), memory[rank].data(), count * sizeof(float)), 0)
            << count << " numbers, rank " << rank << " of " << size;
      }
    }
  }
}

TEST(TransportChoice, UsesGlooIfOneRankRequiresIt) {
  RunOnOneMachine(
      3, [](int rank) { return rank == 1 ? HostTransport::kGloo : HostTransport::kAuto; },
      [](const World& world, Communicator& communicator) {
        std::vector<float> values(10, static_cast<float>(world.rank));

        ASSERT_TRUE(communicator.AllReduce(values, In(kPatience))->Wait().ok());

        EXPECT_EQ(values.front(), 3);
        EXPECT_TRUE(world.store->Get({"gloo/0/1"}, In(kPatience)).ok()) << "an address of Gloo's";
      });
}

TEST(TransportChoice, SharesMemoryByItself) {
  RunOnOneMachine(
      2, [](int) { return HostTransport::kAuto; },
      [](const World& world, Communicator& communicator) {
        std::vector<float> values(10, 1);

        ASSERT_TRUE(communicator.AllReduce(values, In(kPatience))->Wait().ok());

        EXPECT_EQ(values.front(), 2);
        EXPECT_FALSE(world.store->Get({"gloo/0/1"}, In(std::chrono::milliseconds(1))).ok());
      });
}

TEST(TransportChoice, WhoInsistsOnMemoryIsRefusedWhereItCannotBe) {
  RunOnOneMachine(
      2, [](int rank) { return rank == 1 ? HostTransport::kGloo : HostTransport::kSharedMemory; },
      [](const World& world, Communicator& communicator) {
        if (world.rank == 1) return;
        const Result<void> met = communicator.Barrier(In(kPatience))->Wait();

        ASSERT_FALSE(met.ok());
        EXPECT_EQ(met.error().kind, ErrorKind::kInvalid);
        EXPECT_THAT(met.error().message, ::testing::HasSubstr("remove --transport=shared-memory"));
      },
      std::chrono::seconds(3) * Patience());

  World elsewhere;
  elsewhere.size = 2;
  AbandonedConnects abandoned_connects;
  const auto made = MakeHostCommunicator(elsewhere, In(kPatience), abandoned_connects,
                                         HostTransport::kSharedMemory);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::kInvalid);
}

}  // namespace
}  // namespace ringmaster::trainer
