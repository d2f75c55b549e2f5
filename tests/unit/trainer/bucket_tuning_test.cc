#include "worker/trainer/bucket_tuning.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.h"
#include "worker/trainer/comm/communicator_wrapper.h"
#include "worker/trainer/comm/loopback_communicator.h"

namespace ringmaster::trainer {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::nanoseconds;

constexpr int64_t kMiB = 1 << 20;

// One of two ranks, whose reductions take a start and a time for each byte, and which fails at
// will.
class SlowCommunicator final : public CommunicatorWrapper {
 public:
  SlowCommunicator(FakeClock& clock, ReductionCost cost)
      : CommunicatorWrapper(loopback_), clock_(clock), cost_(cost) {}

  int size() const override { return 2; }
  WorkHandle AllReduce(Elements values, ReduceOp op, Deadline deadline) override {
    if (++reductions == fail_at) {
      auto failed = std::make_shared<Work>(deadline);
      failed->Complete(Error{ErrorKind::kUnavailable, "the peer is gone"});
      return failed;
    }
    const duration<double> took(cost_.start_seconds +
                                cost_.seconds_per_byte * static_cast<double>(values.bytes()));
    clock_.Advance(duration_cast<nanoseconds>(took));
    return CommunicatorWrapper::AllReduce(values, op, deadline);
  }

  int reductions = 0;
  int fail_at = 0;

 private:
  LoopbackCommunicator loopback_;
  FakeClock& clock_;
  const ReductionCost cost_;
};

const Deadline kNever = std::chrono::steady_clock::now() + std::chrono::hours(1);

TEST(BucketTuning, ACheapStartMakesSmallBucketsAndADearOneLarge) {
  // √(50 µs · 100 MiB / (1 s per GiB)) = √(50e-6 · 1024 · 100) MiB = 2.26 MiB.
  EXPECT_EQ(BucketBytesFor({50e-6, 1.0 / (1 << 30)}, 100 * kMiB), 37 * BucketTuner::kGrain);
  EXPECT_GT(BucketBytesFor({5e-3, 1.0 / (1 << 30)}, 100 * kMiB), 20 * kMiB);
  EXPECT_LT(BucketBytesFor({1e-6, 1.0 / (1 << 30)}, 100 * kMiB), kMiB);
}

TEST(BucketTuning, NoBucketIsSmallerThanAGrainOrLargerThanAll) {
  EXPECT_EQ(BucketBytesFor({0, 1e-9}, 100 * kMiB), BucketTuner::kGrain);
  EXPECT_EQ(BucketBytesFor({100, 1e-9}, 10 * kMiB), 10 * kMiB);
  EXPECT_EQ(BucketBytesFor({1e-3, 0}, 10 * kMiB), 10 * kMiB) << "bytes cost nothing";
  EXPECT_EQ(BucketBytesFor({1e-3, 1e-9}, 12), BucketTuner::kGrain);
}

TEST(BucketTuning, FindsWhatReductionsCostAndKeepsItOnceAStepWasApplied) {
  FakeClock clock;
  const ReductionCost cost{200e-6, 8.0 / 1e9};  // of 1 Gb/s
  SlowCommunicator communicator(clock, cost);
  std::vector<float> memory(10 * kMiB / sizeof(float));
  BucketTuner tuner;
  const auto begin = clock.Now();

  const auto first = tuner.Choose(communicator, std::span(memory), clock, kNever);
  ASSERT_TRUE(first.ok() && *first);
  EXPECT_NEAR(static_cast<double>(**first), static_cast<double>(BucketBytesFor(cost, 10 * kMiB)),
              BucketTuner::kGrain);
  EXPECT_LT(duration<double>(clock.Now() - begin).count(), 1);
  EXPECT_EQ(tuner.state()[0], 0) << "no step was applied with it: it is no state yet";

  const int measured = communicator.reductions;
  ASSERT_TRUE(tuner.Choose(communicator, std::span(memory), clock, kNever).ok());
  EXPECT_EQ(communicator.reductions, 2 * measured) << "so the next world measures again";
  tuner.Applied();
  EXPECT_EQ(tuner.state()[0], static_cast<float>(**first / BucketTuner::kGrain));

  const auto again = tuner.Choose(communicator, std::span(memory), clock, kNever);
  EXPECT_EQ(**again, **first);
  EXPECT_EQ(communicator.reductions, 2 * measured);
}

TEST(BucketTuning, WhoTookTheStateOverDoesNotMeasure) {
  FakeClock clock;
  SlowCommunicator communicator(clock, {1e-3, 1e-9});
  std::vector<float> memory(1024);
  BucketTuner tuner;
  tuner.state()[0] = 5;

  EXPECT_EQ(**tuner.Choose(communicator, std::span(memory), clock, kNever),
            5 * BucketTuner::kGrain);
  EXPECT_EQ(communicator.reductions, 0);
}

TEST(BucketTuning, OneRankAloneChoosesNothing) {
  FakeClock clock;
  LoopbackCommunicator alone;
  std::vector<float> memory(1024);
  BucketTuner tuner;

  EXPECT_FALSE(*tuner.Choose(alone, std::span(memory), clock, kNever));
  tuner.Applied();
  EXPECT_EQ(tuner.state()[0], 0);
}

TEST(BucketTuning, AWorldThatBreaksMeanwhileLeavesNothingBehind) {
  FakeClock clock;
  std::vector<float> memory(kMiB);
  for (const int fail_at : {1, 5, 10, 11, 15, 16}) {
    SlowCommunicator communicator(clock, {1e-4, 1e-9});
    communicator.fail_at = fail_at;
    BucketTuner tuner;
    EXPECT_FALSE(tuner.Choose(communicator, std::span(memory), clock, kNever).ok()) << fail_at;
    tuner.Applied();
    EXPECT_EQ(tuner.state()[0], 0) << fail_at;
  }
}

}  // namespace
}  // namespace ringmaster::trainer
