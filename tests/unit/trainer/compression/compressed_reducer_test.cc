#include "worker/trainer/compression/compressed_reducer.h"

#include <array>
#include <cmath>
#include <latch>
#include <memory>
#include <mutex>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/memory_store.h"
#include "worker/trainer/comm/gloo/gloo_communicator.h"
#include "worker/trainer/comm/loopback_communicator.h"

namespace ringmaster::trainer {
namespace {

constexpr std::chrono::seconds kReduceLimit{60};
constexpr std::array kReducedAs{Compression::kFloat16, Compression::kBFloat16,
                                Compression::kFloat8E4M3, Compression::kFloat8E5M2};
const std::vector<std::size_t> kBuckets{3, 1000, 70'001, 1, 512};

float GradientAt(int rank, std::size_t index) {
  return std::sin(static_cast<float>(index * 7 + static_cast<std::size_t>(rank) * 13)) * 0.01F;
}

// A rank with gradients in buckets.
class ReducingRank {
 public:
  ReducingRank(const World& world, Compression compression, AbandonedConnects& abandoned_connects)
      : rank_(world.rank),
        size_(world.size),
        codec_(MakeHostRowCodec(compression)),
        feedback_(*codec_, kBuckets) {
    if (world.size == 1) {
      communicator_ = std::make_unique<LoopbackCommunicator>();
    } else {
      communicator_ =
          std::make_unique<GlooCommunicator>(world, In(kReduceLimit), abandoned_connects);
    }
    reducer_ = std::make_unique<CompressedReducer>(*communicator_, *codec_, feedback_);
    for (const std::size_t count : kBuckets) gradients_.emplace_back(count);
  }
  ~ReducingRank() { Leave(); }

  Communicator& communicator() { return *communicator_; }
  const std::vector<std::vector<float>>& gradients() const { return gradients_; }
  float exact() const { return exact_[0]; }

  void Begin(int64_t step) {
    feedback_.Begin({.epoch = {.term = 1, .number = 1}, .step = step}, rank_, size_);
    for (auto& bucket : gradients_) {
      for (std::size_t i = 0; i < bucket.size(); ++i) bucket[i] = GradientAt(rank_, i);
    }
    exact_ = {1.0F + static_cast<float>(rank_) / 1024};
  }
  WorkHandle Reduce(int bucket) {
    const bool last = bucket + 1 == static_cast<int>(kBuckets.size());
    return reducer_->Reduce(bucket, gradients_[static_cast<std::size_t>(bucket)],
                            last ? std::span<float>(exact_) : std::span<float>(), In(kReduceLimit));
  }
  // Reduces all buckets of a step. Returns the first error.
  Result<void> Step(int64_t step) {
    Begin(step);
    std::vector<WorkHandle> works;
    for (int i = 0; i < static_cast<int>(kBuckets.size()); ++i) works.push_back(Reduce(i));
    for (const WorkHandle& work : works) {
      if (Result<void> reduced = work->Wait(); !reduced.ok()) return reduced;
    }
    feedback_.Applied();
    return {};
  }
  void Leave() {
    if (reducer_) reducer_->Stop();
    communicator_.reset();
    reducer_.reset();
  }

 private:
  const int rank_;
  const int size_;
  const std::unique_ptr<RowCodec> codec_;
  ErrorFeedback feedback_;
  std::vector<std::vector<float>> gradients_;
  std::array<float, 1> exact_{};
  std::unique_ptr<CompressedReducer> reducer_;
  std::unique_ptr<Communicator> communicator_;
};

class CompressedReducerTest : public ::testing::TestWithParam<Compression> {
 protected:
  AbandonedConnects abandoned_connects_;
};

// Returns how much the sum over all steps may differ from the exact sum: by the residuals of the
// contributions of all ranks, and the residual of the sum on one rank.
float MostOwed(Compression compression, int size) {
  const float relative = compression == Compression::kFloat8E5M2   ? 0x1p-2F
                         : compression == Compression::kFloat8E4M3 ? 0x1p-3F
                         : compression == Compression::kBFloat16   ? 0x1p-7F
                                                                   : 0x1p-10F;
  return size == 1 ? 1e-6F : relative * 0.01F * static_cast<float>(2 * size);
}

TEST_P(CompressedReducerTest, SumsAlikeOnAllRanksAndOverStepsLosesNothing) {
  constexpr int kSteps = 12;
  for (const int size : {1, 2, 3, 5}) {
    std::mutex mutex;
    std::vector<std::vector<std::vector<float>>> last;  // by rank, bucket
    RunRanks(size, [&](const World& world) {
      ReducingRank rank(world, GetParam(), abandoned_connects_);
      std::vector<double> sums(kBuckets[2]);
      for (int step = 1; step <= kSteps; ++step) {
        const Result<void> reduced = rank.Step(step);
        ASSERT_TRUE(reduced.ok()) << reduced.error().message;
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += rank.gradients()[2][i];
        EXPECT_EQ(rank.exact(),
                  static_cast<float>(size) + static_cast<float>(size * (size - 1) / 2) / 1024);
      }
      double worst = 0;
      for (std::size_t i = 0; i < sums.size(); ++i) {
        double expected = 0;
        for (int other = 0; other < size; ++other) expected += GradientAt(other, i);
        worst = std::max(worst, std::abs(sums[i] - kSteps * expected));
      }
      EXPECT_LT(worst, MostOwed(GetParam(), size)) << "of " << size << " ranks";
      const std::lock_guard lock(mutex);
      last.push_back(rank.gradients());
    });
    ASSERT_EQ(last.size(), static_cast<std::size_t>(size));
    for (const auto& gradients : last) EXPECT_TRUE(gradients == last[0]) << "of " << size;
  }
}

TEST_P(CompressedReducerTest, WhatIsNoNumberReachesAllRanks) {
  RunRanks(2, [&](const World& world) {
    GlooCommunicator communicator(world, In(kReduceLimit), abandoned_connects_);
    const auto codec = MakeHostRowCodec(GetParam());
    ErrorFeedback feedback(*codec, {600});
    CompressedReducer reducer(communicator, *codec, feedback);
    std::vector<float> values(600, 1.0F);
    if (world.rank == 1) values[7] = INFINITY;

    feedback.Begin({}, world.rank, world.size);
    ASSERT_TRUE(reducer.Reduce(0, values, {}, In(kReduceLimit))->Wait().ok());

    EXPECT_TRUE(std::isnan(values[7]));
    EXPECT_EQ(values[8], 2.0F);
  });
}

// After a change of ranks, a rank still has the residual of the piece that it reduced before, and
// adds this residual to its next gradients.
TEST_P(CompressedReducerTest, NothingIsLostWhereRanksReduceOtherPieces) {
  constexpr std::size_t kCount = 600;
  constexpr int kRanks = 2;
  const std::array codecs{MakeHostRowCodec(GetParam()), MakeHostRowCodec(GetParam())};
  std::array<ErrorFeedback, kRanks> feedback{ErrorFeedback(*codecs[0], {kCount}),
                                             ErrorFeedback(*codecs[1], {kCount})};
  std::array<std::vector<double>, kRanks> sums{std::vector<double>(kCount),
                                               std::vector<double>(kCount)};
  int64_t step = 0;
  const auto reduce = [&](Communicator& communicator, int member, int64_t as_step, float scale) {
    const auto at = static_cast<std::size_t>(member);
    ErrorFeedback& owed = feedback[at];
    CompressedReducer reducer(communicator, *codecs[at], owed);
    std::vector<float> values(kCount);
    for (std::size_t i = 0; i < kCount; ++i) values[i] = scale * GradientAt(member, i);
    owed.Begin({.epoch = {.term = 1, .number = 1}, .step = as_step}, communicator.rank(),
               communicator.size());
    ASSERT_TRUE(reducer.Reduce(0, values, {}, In(kReduceLimit))->Wait().ok());
    owed.Applied();
    for (std::size_t i = 0; i < kCount; ++i) sums[at][i] += values[i];
  };
  const auto train_together = [&](int first, int steps) {
    RunRanks(kRanks, [&](const World& world) {
      GlooCommunicator communicator(world, In(kReduceLimit), abandoned_connects_);
      for (int i = 1; i <= steps; ++i) reduce(communicator, (first + world.rank) % 2, step + i, 1);
    });
    step += steps;
  };

  train_together(0, 3);
  train_together(1, 2);  // with swapped ranks
  const std::vector<double> together = sums[0];
  EXPECT_EQ(together, sums[1]);
  for (int member = 0; member < kRanks;
       ++member) {  // each rank adds its residual, alone in a world
    LoopbackCommunicator alone;
    reduce(alone, member, step + 1, 0);
  }

  for (std::size_t i = 0; i < kCount; ++i) {
    const double paid = sums[0][i] + sums[1][i] - together[i];
    const double expected = 5 * (double{GradientAt(0, i)} + GradientAt(1, i));
    ASSERT_NEAR(paid, expected, 1e-7) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, CompressedReducerTest, ::testing::ValuesIn(kReducedAs),
                         [](const auto& param) {
                           std::string name = NameOf(param.param);
                           std::erase(name, '-');
                           return name;
                         });

// Rank 1 sends its first bucket and then nothing, while rank 0 waits in the middle of the step.
class SilentPeerTest : public ::testing::Test {
 protected:
  void Run(const std::function<void(ReducingRank& waiting, std::vector<WorkHandle>& works)>& end) {
    std::latch over(2);
    RunRanks(2, [&](const World& world) {
      ReducingRank rank(world, Compression::kFloat8E4M3, abandoned_connects_);
      rank.Begin(1);
      std::vector<WorkHandle> works;
      const int buckets = world.rank == 0 ? static_cast<int>(kBuckets.size()) : 1;
      for (int i = 0; i < buckets; ++i) works.push_back(rank.Reduce(i));
      if (world.rank == 0) {
        const auto start = std::chrono::steady_clock::now();
        end(rank, works);
        took_ = std::chrono::steady_clock::now() - start;
      }
      over.arrive_and_wait();
    });
  }

  AbandonedConnects abandoned_connects_;
  std::chrono::steady_clock::duration took_{};
};

TEST_F(SilentPeerTest, AbortEndsTheStepInTheMiddle) {
  Run([](ReducingRank& rank, std::vector<WorkHandle>& works) {
    rank.communicator().Abort("another world goes on");
    for (const WorkHandle& work : works) {
      const Result<void> reduced = work->Wait();
      if (reduced.ok()) continue;
      EXPECT_EQ(reduced.error().kind, ErrorKind::kCancelled);
      EXPECT_EQ(reduced.error().message, "another world goes on");
    }
    EXPECT_FALSE(works.back()->Wait().ok());
    EXPECT_FALSE(rank.Reduce(0)->Wait().ok()) << "it stays broken";
  });
  EXPECT_LT(took_, kReduceLimit / 10);
}

TEST_F(SilentPeerTest, LeavingEndsTheStepInTheMiddle) {
  Run([](ReducingRank& rank, std::vector<WorkHandle>& works) {
    rank.Leave();
    const Result<void> reduced = works.back()->Wait();
    ASSERT_FALSE(reduced.ok());
    EXPECT_EQ(reduced.error().kind, ErrorKind::kCancelled);
  });
  EXPECT_LT(took_, kReduceLimit / 10);
}

}  // namespace
}  // namespace ringmaster::trainer
