#include "worker/trainer/data/data_order.h"

#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace ringmaster::trainer {
namespace {

TEST(ShareOf, CoversTheBatchOnceWhateverTheWorldSize) {
  for (const int64_t total : {0, 1, 5, 64, 257}) {
    for (int world = 1; world <= 9; ++world) {
      int64_t next = 0;
      for (int rank = 0; rank < world; ++rank) {
        const Share share = ShareOf(rank, world, total);

        EXPECT_EQ(share.begin, next);
        EXPECT_GE(share.size(), total / world);
        EXPECT_LE(share.size(), total / world + 1);
        next = share.end;
      }
      EXPECT_EQ(next, total);
    }
  }
}

TEST(DataOrder, SeesEverySampleOnceAnEpoch) {
  for (const int64_t samples : {1, 2, 3, 16, 17, 1000}) {
    const DataOrder order(42, samples, 1);

    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < samples; ++i) seen.insert(order.SampleAt(epoch * samples + i, 0));
      EXPECT_EQ(static_cast<int64_t>(seen.size()), samples);
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), samples - 1);
    }
  }
}

TEST(DataOrder, IsOneStreamHoweverItIsCutIntoBatches) {
  const DataOrder single(42, 100, 1);
  const DataOrder batched(42, 100, 7);

  for (int64_t step = 0; step < 40; ++step) {
    for (int64_t i = 0; i < 7; ++i)
      EXPECT_EQ(batched.SampleAt(step, i), single.SampleAt(step * 7 + i, 0));
  }
}

TEST(DataOrder, ShufflesAndDependsOnSeedAndEpoch) {
  const auto first_epoch = [](uint64_t seed, int64_t from) {
    const DataOrder order(seed, 1000, 1);
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < 1000; ++i) samples.push_back(order.SampleAt(from + i, 0));
    return samples;
  };
  const std::vector<int64_t> one = first_epoch(1, 0);
  int in_place = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    in_place += one[i] == static_cast<int64_t>(i) ? 1 : 0;

  EXPECT_LT(in_place, 20);
  EXPECT_EQ(one, first_epoch(1, 0));
  EXPECT_NE(one, first_epoch(2, 0));
  EXPECT_NE(one, first_epoch(1, 1000));
}

// Each sample must be equally likely at each position, even for tiny data sets.
TEST(DataOrder, HasEverySampleAtEveryPlaceAlikeOften) {
  constexpr int64_t kEach = 300;  // how often a sample is expected at each position
  for (const int64_t samples : {2, 3, 5, 7, 16, 60, 99, 128, 129, 200}) {
    const DataOrder order(42, samples, 1);
    for (const int64_t place : {int64_t{0}, samples / 2, samples - 1}) {
      std::vector<int64_t> seen(static_cast<std::size_t>(samples));
      for (int64_t epoch = 0; epoch < kEach * samples; ++epoch) {
        ++seen[static_cast<std::size_t>(order.SampleAt(epoch * samples + place, 0))];
      }

      double chi_squared = 0;
      for (const int64_t times : seen) {
        const auto off = static_cast<double>(times - kEach);
        chi_squared += off * off / kEach;
      }
      const auto freedom = static_cast<double>(samples - 1);
      EXPECT_LT(chi_squared, freedom + 5 * std::sqrt(2 * freedom) + 5)
          << "place " << place << " of " << samples;
    }
  }
}

TEST(DataOrder, CountsStepsAndEpochs) {
  const DataOrder order(1, 100, 32);

  EXPECT_EQ(order.StepsFor(1), 4);
  EXPECT_EQ(order.StepsFor(8), 25);
  EXPECT_EQ(order.EpochOf(0), 0);
  EXPECT_EQ(order.EpochOf(3), 0);
  EXPECT_EQ(order.EpochOf(4), 1);
}

}  // namespace
}  // namespace ringmaster::trainer
