#include "worker/bench/collectives/measurement.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.h"

namespace ringmaster::bench {
namespace {

using std::chrono::microseconds;
using ::testing::ElementsAre;

// The backend of rank 1 of two. An operation takes 10 us on this rank and 40 us on the other; a
// barrier takes a second.
class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(FakeClock& clock) : clock_(clock) {}

  int rank() const override { return 1; }
  int size() const override { return 2; }
  Result<void> Start(std::span<const Call> together) override {
    trace += std::to_string(together.size());
    calls.insert(calls.end(), together.begin(), together.end());
    clock_.Advance(microseconds(10) * static_cast<int>(together.size()));
    return {};
  }
  Result<void> Finish() override {
    trace += '.';
    return {};
  }
  Result<void> Barrier() override {
    trace += '|';
    clock_.Advance(std::chrono::seconds(1));
    return {};
  }
  Result<void> Agree(trainer::Elements value, trainer::ReduceOp op) override {
    if (value.type != trainer::ElementType::kFloat64) return {};  // not a time
    double mine = 0;
    std::memcpy(&mine, value.data, sizeof(mine));
    const double other =
        op == trainer::ReduceOp::kSum && mine != 0 ? 20 : 40;  // the other rank's value
    if (op == trainer::ReduceOp::kSum) mine += other;
    if (op == trainer::ReduceOp::kMin) mine = std::min(mine, other);
    if (op == trainer::ReduceOp::kMax) mine = std::max(mine, other);
    std::memcpy(value.data, &mine, sizeof(mine));
    return {};
  }

  std::string trace;  // a digit: number of calls at once; '.': Finish(); '|': Barrier()
  std::vector<Call> calls;

 private:
  FakeClock& clock_;
};

class MeasurementTest : public ::testing::Test {
 protected:
  Row Measured() {
    const auto rows = Measure(backend, sweep, clock, [](const Row&) {});
    EXPECT_TRUE(rows.ok() && !rows->empty());
    return rows->front();
  }

  FakeClock clock;
  FakeBackend backend{clock};
  Sweepings sweep{.sizes = {256},
                  .types = {trainer::ElementType::kFloat32},
                  .ops = {trainer::ReduceOp::kSum},
                  .iterations = 4,
                  .warm_up = 0,
                  .check = false};
};

TEST_F(MeasurementTest, TimesTheOperationAndNotTheBarrierBeforeIt) {
  sweep.average = Average::kLeast;

  const Row row = Measured();

  EXPECT_NEAR(row.out_of_place.micros, 10, 1e-6);
  EXPECT_NEAR(row.in_place.micros, 10, 1e-6);
}

TEST_F(MeasurementTest, QueuesAllIterationsAndWaitsOnce) {
  Measured();

  EXPECT_EQ(backend.trace,
            ".|1111."
            ".|1111.");
}

TEST_F(MeasurementTest, WarmsUpWithFiveIterations) {
  sweep.warm_up = Sweepings().warm_up;

  Measured();

  EXPECT_EQ(backend.trace,
            "11111.|1111."
            "11111.|1111.");
}

TEST_F(MeasurementTest, WaitsForEachIterationIfBlocking) {
  sweep.blocking = Blocking::kWait;
  Measured();
  EXPECT_EQ(backend.trace,
            ".|1.1.1.1.."
            ".|1.1.1.1..");

  backend.trace.clear();
  sweep.blocking = Blocking::kWaitAndMeet;
  Measured();
  EXPECT_EQ(backend.trace,
            ".|1.|1.|1.|1.|."
            ".|1.|1.|1.|1.|.");
}

TEST_F(MeasurementTest, AnIterationOfSeveralOperationsStartsThemTogether) {
  sweep.aggregated = 3;
  sweep.average = Average::kLeast;

  EXPECT_NEAR(Measured().out_of_place.micros, 10, 1e-6) << "of an operation";

  EXPECT_EQ(backend.trace,
            ".|3333."
            ".|3333.");
}

TEST_F(MeasurementTest, CombinesTheTimesOfTheRanks) {
  const auto micros = [&](Average average) {
    sweep.average = average;
    return Measured().out_of_place.micros;
  };

  EXPECT_NEAR(micros(Average::kRank0), 40, 1e-6);
  EXPECT_NEAR(micros(Average::kMean), 25, 1e-6);
  EXPECT_NEAR(micros(Average::kLeast), 10, 1e-6);
  EXPECT_NEAR(micros(Average::kMost), 40, 1e-6);
}

TEST_F(MeasurementTest, OperationsCycleThroughTheBlocksOfTheBuffers) {
  sweep.sizes = {256, 800};  // the buffers have room for three blocks of 256 bytes
  sweep.iterations = 2;
  sweep.aggregated = 2;

  Measured();

  const auto shifts = [&](std::size_t first) {
    std::vector<std::ptrdiff_t> all;
    for (std::size_t i = first; i < first + 4; ++i) {
      all.push_back(backend.calls[i].receive.data - backend.calls[first].receive.data);
      EXPECT_EQ(backend.calls[i].send.data - backend.calls[first].send.data, all.back());
    }
    return all;
  };
  EXPECT_THAT(shifts(0), ElementsAre(0, 256, 512, 0)) << "out of place";
  EXPECT_THAT(shifts(4), ElementsAre(0, 256, 512, 0)) << "in place";
  EXPECT_THAT(shifts(8), ElementsAre(0, 0, 0, 0)) << "of the largest";
}

TEST_F(MeasurementTest, OutOfPlaceHasTwoBuffersAndInPlaceOne) {
  sweep.iterations = 1;
  sweep.collective = Collective::kScatter;

  Measured();

  ASSERT_EQ(backend.calls.size(), 2U);
  const Call& apart = backend.calls.front();
  EXPECT_GE(std::abs(apart.receive.data - apart.send.data), 256);
  const Call& within = backend.calls.back();
  EXPECT_EQ(within.receive.data - within.send.data, 128) << "rank 1's piece";
}

TEST_F(MeasurementTest, ChecksNoResultWhereAnOperationInPlaceHasNone) {
  sweep.check = true;
  for (const Collective collective : {Collective::kSendRecv, Collective::kAllToAll}) {
    sweep.collective = collective;

    const Row row = Measured();

    EXPECT_GE(row.out_of_place.wrong, 0) << NameOf(collective);
    EXPECT_EQ(row.in_place.wrong, -1) << NameOf(collective);
  }
}

}  // namespace
}  // namespace ringmaster::bench
