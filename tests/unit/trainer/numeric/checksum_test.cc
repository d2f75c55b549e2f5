#include "worker/trainer/numeric/checksum.h"

#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace ringmaster::trainer {
namespace {

TEST(Checksum, EveryBitOfEveryValueCounts) {
  std::vector<float> values(37);  // enough values for full rounds of all lanes and a remainder
  std::iota(values.begin(), values.end(), 1.0F);
  std::set<uint64_t> seen = {Checksum(values)};

  for (float& value : values) {
    for (int bit = 0; bit < 32; ++bit) {
      const float before = value;
      auto* bytes = reinterpret_cast<unsigned char*>(&value);
      bytes[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
      EXPECT_TRUE(seen.insert(Checksum(values)).second);
      value = before;
    }
  }
  EXPECT_EQ(seen.size(), 37U * 32 + 1);
}

TEST(Checksum, OrderSizesAndPartsCount) {
  std::vector<float> ab = {1, 2};
  std::vector<float> ba = {2, 1};
  std::vector<float> longer = {1, 2, 0};
  std::vector<float> negative_zero = {-0.0F};
  std::vector<float> zero = {0.0F};
  std::vector<float> none;

  EXPECT_NE(Checksum(ab), Checksum(ba));
  EXPECT_NE(Checksum(ab), Checksum(longer));
  EXPECT_NE(Checksum(zero), Checksum(negative_zero));
  EXPECT_NE(Checksum(TrainableState{ab, none}), Checksum(TrainableState{none, ab}));
  EXPECT_NE(Checksum(TrainableState{ab, ba}), Checksum(TrainableState{ba, ab}));
}

}  // namespace
}  // namespace ringmaster::trainer
