#include "worker/trainer/numeric/share.h"

#include <gtest/gtest.h>

namespace ringmaster::trainer {
namespace {

TEST(MicroBatches, CoverTheShareInEqualPiecesButTheLast) {
  for (int64_t size = 1; size < 40; ++size) {
    for (int64_t most = 1; most < 45; ++most) {
      const MicroBatches parts(Share{7, 7 + size}, most);
      int64_t next = 7;
      for (int64_t i = 0; i < parts.count(); ++i) {
        EXPECT_EQ(parts.at(i).begin, next);
        EXPECT_LE(parts.at(i).size(), most);
        EXPECT_GT(parts.at(i).size(), 0);
        if (i + 1 < parts.count()) {
          EXPECT_EQ(parts.at(i).size(), most);
        }
        next = parts.at(i).end;
      }
      EXPECT_EQ(next, 7 + size);
    }
  }
}

TEST(MicroBatches, AreOneWithoutALimitAndOfAnEmptyShare) {
  EXPECT_EQ(MicroBatches(Share{2, 9}).count(), 1);
  EXPECT_EQ(MicroBatches(Share{2, 9}).at(0).size(), 7);
  EXPECT_EQ(MicroBatches(Share{3, 3}, 2).count(), 1);
  EXPECT_EQ(MicroBatches(Share{3, 3}, 2).at(0).size(), 0);
}

}  // namespace
}  // namespace ringmaster::trainer
