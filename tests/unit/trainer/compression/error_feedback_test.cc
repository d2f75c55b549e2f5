#include "worker/trainer/compression/error_feedback.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::trainer {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

StateVersion Version(int64_t world, int64_t step) {
  return {.epoch = {.term = 1, .number = world}, .step = step};
}

class ErrorFeedbackTest : public ::testing::Test {
 protected:
  // Runs a step that leaves a residual of `left` in each value, without applying it.
  void Attempt(const StateVersion& version, float left, int rank = 1, int size = 2) {
    feedback_.Begin(version, rank, size);
    for (const int bucket : {0, 1}) {
      const BucketResiduals residuals = feedback_.Bucket(bucket);
      std::ranges::fill(residuals.own_after, left);
      std::ranges::fill(residuals.piece_after, 10 * left);
    }
  }
  void Apply(const StateVersion& version, float left, int rank = 1, int size = 2) {
    Attempt(version, left, rank, size);
    feedback_.Applied();
  }

  // Expects the residuals at the start of the next step. `moved`: residuals of an earlier world.
  void ExpectOwed(float own, float piece, int rank = 1, int size = 2, float moved = 0) {
    feedback_.Begin(Version(99, 99), rank, size);
    if (moved == 0) {
      EXPECT_THAT(feedback_.Bucket(1).moved, IsEmpty());
    } else {
      EXPECT_THAT(feedback_.Bucket(1).moved, Each(moved));
    }
    EXPECT_THAT(feedback_.Bucket(0).own_before, Each(own));
    EXPECT_THAT(feedback_.Bucket(1).own_before, Each(own));
    if (piece == 0) {
      EXPECT_THAT(feedback_.Bucket(1).piece_before, IsEmpty());
    } else {
      EXPECT_THAT(feedback_.Bucket(1).piece_before, Each(piece));
    }
  }

  const std::unique_ptr<RowCodec> codec_ = MakeHostRowCodec(Compression::kFloat16);
  ErrorFeedback feedback_{*codec_, {5, 8}};
};

TEST_F(ErrorFeedbackTest, AnAppliedStepLeavesWhatTheNextOneStartsFrom) {
  ExpectOwed(0, 0);

  Apply(Version(1, 1), 0.5F);
  ExpectOwed(0.5F, 5);

  Apply(Version(1, 2), 0.25F);
  ExpectOwed(0.25F, 2.5F);
}

TEST_F(ErrorFeedbackTest, AStepThatDidNotHappenChangesNothing) {
  Apply(Version(1, 1), 0.5F);
  Attempt(Version(1, 2), 7);

  EXPECT_EQ(feedback_.Adopt({.version = Version(1, 1)}, false), ResidualFate::kKept);

  ExpectOwed(0.5F, 5);
}

TEST_F(ErrorFeedbackTest, AStepThatOnlyOthersSawAppliedCounts) {
  Apply(Version(1, 1), 0.5F);
  Attempt(Version(1, 2), 0.125F);
  Attempt(Version(2, 2), 7);  // a step of a world that broke in between

  EXPECT_EQ(feedback_.Adopt({.version = Version(1, 2)}, true), ResidualFate::kTakenOver);

  ExpectOwed(0.125F, 1.25F);
}

TEST_F(ErrorFeedbackTest, AStepThatOthersSkippedLeavesNothing) {
  Apply(Version(1, 1), 0.5F);
  Attempt(Version(1, 2), 7);

  EXPECT_EQ(feedback_.Adopt({.version = Version(1, 2), .last_step_skipped = true}, true),
            ResidualFate::kKept);

  ExpectOwed(0.5F, 5);
}

TEST_F(ErrorFeedbackTest, AStateTrainedWithoutThisRankOwesItNothing) {
  EXPECT_EQ(feedback_.Adopt({.version = Version(1, 4)}, true), ResidualFate::kNone) << "a joiner";
  Apply(Version(1, 5), 0.5F);
  Attempt(Version(1, 6), 7);

  EXPECT_EQ(feedback_.Adopt({.version = Version(2, 9)}, true), ResidualFate::kDropped);

  ExpectOwed(0, 0);
}

TEST_F(ErrorFeedbackTest, WhatIsOwedOfAPieceMovesIntoTheOwnGradientsWhereAnotherOneIsReduced) {
  Apply(Version(1, 1), 0.5F, 1, 3);

  ExpectOwed(0.5F, 5, 1, 3);
  ExpectOwed(0.5F, 0, 0, 3, 5);
  EXPECT_EQ(feedback_.Bucket(0).moved.size(), 2U);  // pieces of 5 values: 1, 2, 2
  EXPECT_EQ(feedback_.Bucket(0).moved_begin, 1U);
  EXPECT_EQ(feedback_.Bucket(1).moved.size(), 3U);  // pieces of 8 values: 2, 3, 3
  EXPECT_EQ(feedback_.Bucket(1).moved_begin, 2U);
  ExpectOwed(0.5F, 0, 0, 1, 5);
  ExpectOwed(0.5F, 5, 1, 3);  // no step was applied in the worlds in between

  Apply(Version(2, 2), 0.25F, 0, 1);  // a lone rank does not encode sums
  ExpectOwed(0.25F, 0, 1, 3);
}

TEST_F(ErrorFeedbackTest, MoreBrokenWorldsThanAreKeptForgetTheOldest) {
  Apply(Version(1, 1), 0.5F);
  for (int64_t world = 1; world <= 6; ++world) {
    Attempt(Version(world, 2), static_cast<float>(world));
  }

  EXPECT_EQ(feedback_.Adopt({.version = Version(3, 2)}, true), ResidualFate::kTakenOver);
  ExpectOwed(3, 30);
  EXPECT_EQ(feedback_.Adopt({.version = Version(1, 2)}, true), ResidualFate::kDropped);
}

TEST(PieceOf, CutsABucketIntoPiecesThatDifferByOneElement) {
  for (const int size : {1, 2, 3, 7}) {
    for (const std::size_t count : {0U, 1U, 6U, 100U}) {
      std::size_t end = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Piece piece = PieceOf(count, rank, size);
        EXPECT_EQ(piece.begin, end);
        end = piece.end;
        EXPECT_GE(piece.size() + 1, LargestPiece(count, size));
        if (size > 1) {
          EXPECT_LE(piece.size(), LargestPiece(count, size));
        }
      }
      EXPECT_EQ(end, count);
    }
  }
}

}  // namespace
}  // namespace ringmaster::trainer
