#include "worker/trainer/comm/nccl/nccl_communicator.h"

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/eventually.h"
#include "tests/unit/trainer/comm/nccl/fake_nccl.h"
#include "tests/unit/trainer/memory_store.h"

namespace ringmaster::trainer {
namespace {

using control::ConnectStage;
using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Starts a reduction that ends only when the test releases it.
WorkHandle UnderWay(FakeRank& rank, NcclCommunicator& communicator, std::vector<float>& values) {
  rank.nccl.hold_operations = true;
  WorkHandle work = communicator.AllReduce(values, In(kSoon));
  EXPECT_TRUE(Eventually([&] { return rank.nccl.Called("all_reduce"); }));
  return work;
}

class NcclCommunicatorTest : public ::testing::Test {
 protected:
  std::unique_ptr<NcclCommunicator> Connect(milliseconds limit = kSoon) {
    return std::make_unique<NcclCommunicator>(rank.runtime, World{}, In(limit), abandoned_connects);
  }

  FakeRank rank;
  AbandonedConnects abandoned_connects;
  std::vector<float> values = std::vector<float>(1000, 41);
};

TEST_F(NcclCommunicatorTest, StagesHostMemoryThroughTheDevice) {
  const auto communicator = Connect();

  const Result<void> reduced = communicator->AllReduce(values, In(kSoon))->Wait();

  ASSERT_TRUE(reduced.ok()) << reduced.error().message;
  EXPECT_THAT(values, Each(42));
  EXPECT_THAT(rank.device->calls(), ElementsAre("record own"));
}

TEST_F(NcclCommunicatorTest, DeviceMemoryIsUsedWhereItIsAfterTheComputing) {
  const auto communicator = Connect();
  rank.device->Own(values.data());

  ASSERT_TRUE(communicator->AllReduce(values, In(kSoon))->Wait().ok());

  EXPECT_THAT(values, Each(42));
  EXPECT_THAT(rank.device->calls(), ElementsAre("record computing", "follow", "record own"));
}

TEST_F(NcclCommunicatorTest, OperationsRunWithoutBeingWaitedFor) {
  const auto communicator = Connect();
  std::array<std::vector<float>, 100> buckets;
  std::vector<WorkHandle> works;

  for (std::vector<float>& bucket : buckets) {
    bucket.assign(10, 41);
    works.push_back(communicator->AllReduce(bucket, In(kSoon)));
  }

  for (const WorkHandle& work : works) ASSERT_TRUE(work->Wait().ok());
  for (const std::vector<float>& bucket : buckets) EXPECT_THAT(bucket, Each(42));
}

TEST_F(NcclCommunicatorTest, OtherCollectives) {
  const auto communicator = Connect();
  std::vector<float> copy(values.size());
  const auto bytes = std::as_writable_bytes(std::span(copy));
  const Elements all{std::span(values)};

  EXPECT_TRUE(
      communicator->ReduceScatter(all, std::span(copy), ReduceOp::kSum, In(kSoon))->Wait().ok());
  EXPECT_THAT(copy, Each(41));
  EXPECT_TRUE(
      communicator->AllGather(std::as_bytes(std::span(values)), bytes, In(kSoon))->Wait().ok());
  EXPECT_TRUE(communicator->Broadcast(bytes, 0, In(kSoon))->Wait().ok());
  EXPECT_TRUE(communicator->Barrier(In(kSoon))->Wait().ok());
  EXPECT_TRUE(communicator->AllToAll(bytes, {40}, bytes, {40}, In(kSoon))->Wait().ok());

  EXPECT_THAT(rank.nccl.calls(),
              ElementsAre("init 0/1", "reduce_scatter", "all_gather", "broadcast 0", "all_reduce",
                          "group_start", "send 40 to 0", "receive 40 from 0", "group_end"));
}

TEST_F(NcclCommunicatorTest, RunsAnyCallsOfNcclsAfterTheComputing) {
  const auto communicator = Connect();
  std::vector<float> sums(values.size());

  const Result<void> run =
      communicator
          ->Run(
              control::CollectiveKind::kAllReduce,
              [&](const NcclApi& nccl, NcclComm comm, NcclStream stream) {
                return nccl.all_reduce(values.data(), sums.data(), sums.size(), NcclType::kFloat32,
                                       NcclOp::kSum, comm, stream);
              },
              In(kSoon))
          ->Wait();

  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_THAT(sums, Each(42));
  EXPECT_THAT(rank.device->calls(), ElementsAre("record computing", "follow", "record own"));
}

// Tests that all operations fail with CUDA's error, and that none waits for the broken device.
TEST_F(NcclCommunicatorTest, ADeviceThatBreaksEndsAllThatIsUnderWayInCudasWords) {
  const auto communicator = Connect();
  const WorkHandle work = UnderWay(rank, *communicator, values);
  const WorkHandle next = communicator->AllReduce(values, In(kSoon));

  rank.nccl.device_broken = true;

  for (const WorkHandle& one : {work, next}) {
    const Result<void> reduced = one->Wait();
    ASSERT_FALSE(reduced.ok());
    EXPECT_THAT(reduced.error().message, HasSubstr("uncorrectable ECC error"));
  }
  EXPECT_FALSE(communicator->Barrier(In(kSoon))->Wait().ok());
}

TEST_F(NcclCommunicatorTest, OperationsWaitUntilItIsConnected) {
  rank.nccl.hold_init = true;
  const auto communicator = Connect();
  const WorkHandle work = communicator->AllReduce(values, In(kSoon));

  rank.nccl.hold_init = false;

  EXPECT_TRUE(work->Wait().ok());
}

// Rank 1 first waits for rank 0's plan, and then for no particular rank. Repeated polls of NCCL do
// not count as progress.
TEST_F(NcclCommunicatorTest, ReportsTheStageOfConnectingAndThePeerThatItWaitsFor) {
  rank.nccl.hold_init = true;
  FakeRank other;
  World world;
  world.rank = 1;
  world.size = 2;
  world.store = std::make_shared<MemoryStore>();
  World first = world;
  first.rank = 0;
  std::atomic<int> said = 0;
  std::atomic<ConnectStage> stage = ConnectStage::kBegin;
  std::atomic<int> peer = -1;
  world.waits_for = [&](int waited_for) { peer = waited_for; };
  world.comes_to = [&](ConnectStage reached) {
    stage = reached;
    ++said;
  };

  NcclCommunicator second(rank.runtime, world, In(kSoon), abandoned_connects);
  ASSERT_TRUE(Eventually([&] { return stage == ConnectStage::kMeet; }));
  EXPECT_EQ(peer, 0);

  NcclCommunicator leader(other.runtime, first, In(kSoon), abandoned_connects);
  ASSERT_TRUE(Eventually([&] { return rank.nccl.looks_at_init > 10; }));
  EXPECT_EQ(stage, ConnectStage::kMake);
  EXPECT_EQ(peer, -1);
  EXPECT_EQ(said, 2);

  EXPECT_TRUE(leader.Barrier(In(kSoon))->Wait().ok());
  rank.nccl.hold_init = false;
  ASSERT_TRUE(second.Barrier(In(kSoon))->Wait().ok());
  EXPECT_EQ(stage, ConnectStage::kReady);
  EXPECT_EQ(peer, -1);
}

// After the abort, the thread may read the plan while the next world reports its progress.
TEST_F(NcclCommunicatorTest, AnAbandonedWorldReportsNothing) {
  FakeRank other;
  World world;
  world.rank = 1;
  world.size = 2;
  world.store = std::make_shared<MemoryStore>();
  World first = world;
  first.rank = 0;
  std::atomic<ConnectStage> stage = ConnectStage::kBegin;
  world.comes_to = [&](ConnectStage reached) { stage = reached; };
  NcclCommunicator second(rank.runtime, world, In(kSoon), abandoned_connects);
  ASSERT_TRUE(Eventually([&] { return stage == ConnectStage::kMeet; }));

  second.Abort("a rank was lost");
  NcclCommunicator leader(other.runtime, first, In(kSoon), abandoned_connects);

  EXPECT_TRUE(leader.Barrier(In(kSoon))->Wait().ok());
  ASSERT_TRUE(Eventually([&] { return rank.nccl.Called("abort"); }));
  EXPECT_EQ(stage, ConnectStage::kMeet);
}

// The counts distinguish a device that hangs from the devices that wait for that device.
TEST_F(NcclCommunicatorTest, CountsTheCollectivesThatItsHostAndItsDeviceHaveGotTo) {
  std::mutex mutex;
  control::CollectiveCounts said;
  World world;
  world.counts = [&](const control::CollectiveCounts& counts) {
    const std::lock_guard lock(mutex);
    said = counts;
  };
  const auto says = [&](const control::CollectiveCounts& counts) {
    return Eventually([&] {
      const std::lock_guard lock(mutex);
      return said == counts;
    });
  };
  NcclCommunicator communicator(rank.runtime, world, In(kSoon), abandoned_connects);
  ASSERT_TRUE(communicator.Barrier(In(kSoon))->Wait().ok());
  EXPECT_TRUE(says({1, 1, control::CollectiveKind::kBarrier}));

  rank.device->Own(values.data());
  rank.nccl.hold_computing = true;
  const WorkHandle first = communicator.AllReduce(values, In(kSoon));
  const WorkHandle second = communicator.AllReduce(values, In(kSoon));
  EXPECT_TRUE(says({3, 1, control::CollectiveKind::kBarrier})) << "the device computes";

  rank.nccl.hold_operations = true;
  rank.nccl.hold_computing = false;
  EXPECT_TRUE(says({3, 2, control::CollectiveKind::kAllReduce})) << "it waits for other ranks";

  rank.nccl.hold_launches = true;
  const WorkHandle third = communicator.AllReduce(values, In(kSoon));
  EXPECT_TRUE(says({4, -1, control::CollectiveKind::kAllReduce})) << "nobody looks meanwhile";

  rank.nccl.hold_launches = false;
  rank.nccl.hold_operations = false;
  EXPECT_TRUE(first->Wait().ok() && second->Wait().ok() && third->Wait().ok());
  EXPECT_TRUE(says({4, 4, control::CollectiveKind::kAllReduce}));
}

TEST_F(NcclCommunicatorTest, ConnectingThatDoesNotEndIsATimeout) {
  rank.nccl.hold_init = true;
  const auto communicator = Connect(milliseconds(30));

  const Result<void> reduced = communicator->AllReduce(values, In(kSoon))->Wait();

  ASSERT_FALSE(reduced.ok());
  EXPECT_EQ(reduced.error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(reduced.error().message,
            "while connecting rank 0 of 1: ncclCommInitRankConfig did not finish in time");
  EXPECT_EQ(rank.nccl.alive(), 0);
}

TEST_F(NcclCommunicatorTest, AFailedConnectReportsNcclsError) {
  rank.nccl.init_result = NcclResult::kSystemError;
  const auto communicator = Connect();

  const Result<void> reduced = communicator->AllReduce(values, In(kSoon))->Wait();

  ASSERT_FALSE(reduced.ok());
  EXPECT_EQ(reduced.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(reduced.error().message, HasSubstr("NCCL reported \"a fake error\""));
}

TEST_F(NcclCommunicatorTest, AbortEndsConnecting) {
  rank.nccl.hold_init = true;
  const auto communicator = Connect();
  const WorkHandle work = communicator->AllReduce(values, In(kSoon));

  communicator->Abort("the world is over");

  ASSERT_FALSE(work->Wait().ok());
  EXPECT_EQ(work->Wait().error().message, "the world is over");
}

TEST_F(NcclCommunicatorTest, AnErrorOfNcclBreaksItForGood) {
  const auto communicator = Connect();
  const WorkHandle work = UnderWay(rank, *communicator, values);

  rank.nccl.async_error = NcclResult::kRemoteError;

  ASSERT_FALSE(work->Wait().ok());
  EXPECT_EQ(work->Wait().error().kind, ErrorKind::kUnavailable);
  EXPECT_FALSE(communicator->Barrier(In(kSoon))->Wait().ok());
  EXPECT_THAT(values, Each(41)) << "memory of a host is written when all went well";
}

TEST_F(NcclCommunicatorTest, AnOperationThatAnErrorEndedIsNotDone) {
  const auto communicator = Connect();
  ASSERT_TRUE(communicator->Barrier(In(kSoon))->Wait().ok());
  rank.nccl.async_error = NcclResult::kRemoteError;  // events complete nevertheless

  EXPECT_FALSE(communicator->AllReduce(values, In(kSoon))->Wait().ok());
}

TEST_F(NcclCommunicatorTest, ConfirmsWhatAllRanksMade) {
  const auto communicator = Connect();

  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(WaitConfirmed(*communicator, communicator->AllReduce(values, In(kSoon))).ok());
  }

  EXPECT_EQ(std::ranges::count(rank.nccl.calls(), std::string("all_reduce")), 6);
}

TEST_F(NcclCommunicatorTest, WhatAPeerThatGaveUpMadeIsNotConfirmed) {
  const auto communicator = Connect();
  ASSERT_TRUE(WaitConfirmed(*communicator, communicator->Barrier(In(kSoon))).ok());
  rank.nccl.peer_gave_up = true;
  ASSERT_TRUE(communicator->AllReduce(values, In(kSoon))->Wait().ok()) << "it looks well";

  const Result<void> confirmed = communicator->Confirm(In(kSoon))->Wait();

  ASSERT_FALSE(confirmed.ok());
  EXPECT_EQ(confirmed.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(confirmed.error().message, HasSubstr("another rank aborted"));
  rank.nccl.peer_gave_up = false;
  EXPECT_FALSE(communicator->Barrier(In(kSoon))->Wait().ok()) << "the world is over";
}

TEST_F(NcclCommunicatorTest, APassedDeadlineBreaksIt) {
  rank.nccl.hold_operations = true;
  const auto communicator = Connect();

  const Result<void> reduced = communicator->AllReduce(values, In(milliseconds(30)))->Wait();

  ASSERT_FALSE(reduced.ok());
  EXPECT_EQ(reduced.error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(reduced.error().message,
            "while reducing with the other ranks (allreduce): the other ranks did not participate "
            "in time");
}

TEST_F(NcclCommunicatorTest, AbortRevokesWhatIsUnderWayAndKeepsTheCommunicator) {
  auto communicator = Connect();
  const WorkHandle first = UnderWay(rank, *communicator, values);

  communicator->Abort("the world is over");

  ASSERT_FALSE(first->Wait().ok());
  EXPECT_EQ(first->Wait().error().kind, ErrorKind::kCancelled);
  communicator.reset();
  EXPECT_TRUE(rank.nccl.Called("revoke"));
  const std::optional<NcclParent> parked = rank.runtime->TakeParked();
  ASSERT_TRUE(parked.has_value());
  EXPECT_EQ(parked->state, ParentState::kRevoked);
  rank.runtime->Abort(parked->comm);
}

TEST_F(NcclCommunicatorTest, ALaunchThatIsUnderWayIsAbortedAndNotRevoked) {
  rank.nccl.hold_launches = true;
  const auto communicator = Connect();
  const WorkHandle work = UnderWay(rank, *communicator, values);

  communicator->Abort("the world is over");

  EXPECT_FALSE(work->Wait().ok());
  EXPECT_FALSE(rank.nccl.Called("revoke"));
  EXPECT_EQ(rank.nccl.alive(), 0);
}

TEST_F(NcclCommunicatorTest, ARevokeThatFailsIsAnAbort) {
  rank.nccl.revoke_result = NcclResult::kInternalError;
  auto communicator = Connect();
  const WorkHandle work = UnderWay(rank, *communicator, values);

  communicator->Abort("the world is over");

  EXPECT_FALSE(work->Wait().ok());
  communicator.reset();
  EXPECT_EQ(rank.nccl.alive(), 0);
  EXPECT_FALSE(rank.runtime->TakeParked().has_value());
}

TEST_F(NcclCommunicatorTest, ARevokeThatDoesNotEndWhatIsUnderWayIsFollowedByAnAbort) {
  rank.nccl.revoke_frees = false;
  auto communicator = Connect();
  const WorkHandle work = UnderWay(rank, *communicator, values);

  communicator->Abort("the world is over");

  EXPECT_FALSE(work->Wait().ok());
  EXPECT_TRUE(rank.nccl.Called("revoke"));
  EXPECT_EQ(rank.nccl.alive(), 0);
}

TEST_F(NcclCommunicatorTest, WhatWasHalfLaunchedIsUnderWay) {
  rank.nccl.hold_operations = true;
  rank.nccl.revoke_frees = false;
  rank.nccl.launch_result = NcclResult::kInternalError;
  const auto communicator = Connect();

  EXPECT_FALSE(communicator->AllReduce(values, In(kSoon))->Wait().ok());

  EXPECT_EQ(rank.nccl.alive(), 0) << "its memory is the caller's again only after an abort";
}

// The operations wait for the backward pass on the stream, so the communicator does not hang.
TEST_F(NcclCommunicatorTest, ComputingThatOperationsWaitForEndsBeforeTheyAreRevoked) {
  rank.nccl.hold_computing = true;
  rank.device->Own(values.data());
  auto communicator = Connect();
  const WorkHandle work = UnderWay(rank, *communicator, values);

  communicator->Abort("the world is over");

  ASSERT_TRUE(Eventually([&] { return rank.device->looks_at_computing() >= 3 || work->ended(); }));
  EXPECT_FALSE(rank.nccl.Called("revoke"));
  rank.nccl.hold_computing = false;
  EXPECT_FALSE(work->Wait().ok());
  EXPECT_TRUE(rank.nccl.Called("revoke"));
}

TEST_F(NcclCommunicatorTest, AnOperationsTimeCountsFromTheEndOfItsComputing) {
  rank.nccl.hold_computing = true;
  rank.device->Own(values.data());
  const auto communicator = Connect();
  const WorkHandle work = communicator->AllReduce(values, In(kSoon));
  ASSERT_TRUE(Eventually([&] { return rank.device->looks_at_computing() > 0; }));

  const auto computed = std::chrono::steady_clock::now();
  rank.nccl.hold_computing = false;

  ASSERT_TRUE(work->Wait().ok());
  ASSERT_TRUE(work->span().has_value());
  EXPECT_GE(work->span()->begin, computed);
}

// The device starts the confirmation without waiting for the host after the reduction.
TEST_F(NcclCommunicatorTest, AConfirmationIsPutBehindWhatIsUnderWay) {
  const auto communicator = Connect();
  const WorkHandle before = UnderWay(rank, *communicator, values);

  const WorkHandle confirmed = communicator->Confirm(In(kSoon));
  const WorkHandle after = communicator->Barrier(In(kSoon));

  EXPECT_TRUE(Eventually([&] { return rank.nccl.summed().size() == 1; }));
  EXPECT_FALSE(before->ended() || confirmed->ended());
  rank.nccl.hold_operations = false;
  for (const WorkHandle& work : {before, confirmed, after}) EXPECT_TRUE(work->Wait().ok());
}

TEST_F(NcclCommunicatorTest, DestructionEndsWhatIsUnderWay) {
  auto communicator = Connect();
  const WorkHandle work = UnderWay(rank, *communicator, values);

  communicator.reset();

  ASSERT_FALSE(work->Wait().ok());
  EXPECT_EQ(work->Wait().error().message, "the communicator ended");
  EXPECT_EQ(rank.device->alive(), 0) << "of its events and streams";
}

TEST_F(NcclCommunicatorTest, ALaunchThatFailsBreaksIt) {
  rank.nccl.launch_result = NcclResult::kInvalidUsage;
  const auto communicator = Connect();

  EXPECT_FALSE(communicator->AllReduce(values, In(kSoon))->Wait().ok());
}

TEST_F(NcclCommunicatorTest, AHealthyOneIsKept) {
  auto communicator = Connect();
  ASSERT_TRUE(communicator->Barrier(In(kSoon))->Wait().ok());

  communicator.reset();

  const std::optional<NcclParent> parked = rank.runtime->TakeParked();
  ASSERT_TRUE(parked.has_value());
  EXPECT_EQ(parked->state, ParentState::kHealthy);
  rank.runtime->Abort(parked->comm);
}

TEST_F(NcclCommunicatorTest, AllOfAProcessAreMarkedBeforeOneIsAborted) {
  rank.nccl.hold_operations = true;
  rank.nccl.revoke_result = NcclResult::kInternalError;
  auto first = Connect();
  auto second = Connect();
  const WorkHandle one = first->AllReduce(values, In(kSoon));
  const WorkHandle two = second->Barrier(In(kSoon));
  ASSERT_TRUE(Eventually(
      [&] { return std::ranges::count(rank.nccl.calls(), std::string("all_reduce")) >= 2; }));
  std::atomic<int> unmarked = 0;
  rank.nccl.on_abort = [&] {
    // A communicator that has learned of the abort accepts no operations.
    for (NcclCommunicator* each : {first.get(), second.get()}) {
      if (each->Barrier(In(kSoon))->Wait().ok()) ++unmarked;
    }
  };

  first->Abort("the world is over");

  ASSERT_FALSE(one->Wait().ok());
  EXPECT_EQ(one->Wait().error().kind, ErrorKind::kCancelled);
  ASSERT_FALSE(two->Wait().ok());
  EXPECT_THAT(two->Wait().error().message, HasSubstr("the world is over"));
  EXPECT_EQ(two->Wait().error().kind, ErrorKind::kUnavailable)
      << "the membership source did not end the second world";
  EXPECT_EQ(unmarked, 0);
}

// Tests with a version of NCCL that has no revoke.
class OldNcclTest : public ::testing::Test {
 protected:
  AbandonedConnects abandoned_connects;
  std::vector<float> values = std::vector<float>(10);
};

TEST_F(OldNcclTest, WhatIsUnderWayIsAborted) {
  FakeRank rank(22703);
  auto communicator =
      std::make_unique<NcclCommunicator>(rank.runtime, World{}, In(kSoon), abandoned_connects);
  const WorkHandle work = UnderWay(rank, *communicator, values);

  communicator->Abort("the world is over");

  EXPECT_FALSE(work->Wait().ok());
  communicator.reset();
  EXPECT_EQ(rank.nccl.alive(), 0);
}

TEST_F(OldNcclTest, ABrokenOneWithNothingUnderWayIsKeptToBeShrunk) {
  FakeRank rank(22703);
  auto communicator =
      std::make_unique<NcclCommunicator>(rank.runtime, World{}, In(kSoon), abandoned_connects);
  ASSERT_TRUE(communicator->Barrier(In(kSoon))->Wait().ok());

  communicator->Abort("the world is over");
  communicator.reset();

  const std::optional<NcclParent> parked = rank.runtime->TakeParked();
  ASSERT_TRUE(parked.has_value());
  EXPECT_EQ(parked->state, ParentState::kBroken);
  rank.runtime->Abort(parked->comm);
}

TEST_F(OldNcclTest, WithoutShrinkNothingIsKept) {
  FakeRank rank(22602);
  auto communicator =
      std::make_unique<NcclCommunicator>(rank.runtime, World{}, In(kSoon), abandoned_connects);
  ASSERT_TRUE(communicator->Barrier(In(kSoon))->Wait().ok());

  communicator.reset();

  EXPECT_EQ(rank.nccl.alive(), 0);
}

TEST_F(OldNcclTest, AnAbortThatHangsEndsTheProcess) {
  FakeRank rank(22602);
  rank.nccl.hang_aborts = true;
  auto communicator =
      std::make_unique<NcclCommunicator>(rank.runtime, World{}, In(kSoon), abandoned_connects);
  const WorkHandle work = UnderWay(rank, *communicator, values);

  communicator->Abort("the world is over");

  std::unique_lock lock(rank.mutex);
  ASSERT_TRUE(rank.ended.wait_for(lock, kSoon, [&] { return !rank.ended_for.empty(); }));
  EXPECT_THAT(rank.ended_for, HasSubstr("the NCCL communicator"));
}

}  // namespace
}  // namespace ringmaster::trainer
