// Tests a state in device memory: syncs and checkpoints must use the values in device memory.

#include "worker/trainer/elastic/state_mirror.h"

#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/elastic/memory_communicator.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "worker/trainer/checkpoint/state_keeper.h"
#include "worker/trainer/elastic/state_sync.h"
#include "worker/trainer/world_sources/static/static_membership.h"

namespace ringmaster::trainer {
namespace {

using ::testing::Each;

// A mirror whose device is a private array in host memory.
class FakeDeviceState final : public StateMirror {
 public:
  explicit FakeDeviceState(float value) : device(10, value), host(10, -1) {}

  void Pull() override { host = device; }
  void Push() override { device = host; }
  TrainableState view() { return {host}; }

  std::vector<float> device;
  std::vector<float> host;
};

LocalState At(int64_t step) {
  return {.version = {.epoch = {1, 1}, .step = step}, .origin = StateOrigin::kTraining};
}

TEST(StateMirror, StateSyncMovesTheStateFromDeviceToDevice) {
  FakeDeviceState ahead(7);
  FakeDeviceState behind(3);
  const auto hub = std::make_shared<MemoryCommunicator::Hub>(2);
  const SystemClock clock;
  const auto run = [&](FakeDeviceState& state, int rank, int64_t step) {
    MemoryCommunicator communicator(hub, rank, -1, false);
    StateSync sync(state.view(), At(step), clock,
                   {.timeout = std::chrono::seconds(60), .mirror = &state});
    EXPECT_TRUE(sync.Run(communicator).ok());
  };

  {
    const std::jthread other([&] { run(ahead, 1, 5); });
    run(behind, 0, 4);
  }

  EXPECT_THAT(behind.device, Each(7));
  EXPECT_THAT(ahead.device, Each(7));
}

TEST(StateMirror, SnapshotsAreOfTheDevicesStateAndRestoreIt) {
  const TemporaryFolder folder;
  const auto membership = MakeSingleMembership();
  const SystemClock clock;
  FakeDeviceState before(7);
  FakeDeviceState after(0);
  const auto keeper = [&](FakeDeviceState& state) {
    return StateKeeper::Open({.checkpoints = {},
                              .snapshot_folder = folder.path(),
                              .identity = {.run = "run", .model = "m", .shaping = ""},
                              .mirror = &state},
                             state.view(), *membership, clock);
  };

  (*keeper(before))->Applied(World{}, At(5), true);
  const Result<LocalState> restored = (*keeper(after))->Restore(LocalState{}, true);

  ASSERT_TRUE(restored.ok());
  EXPECT_EQ(restored->version.step, 5);
  EXPECT_THAT(after.device, Each(7));
}

}  // namespace
}  // namespace ringmaster::trainer
