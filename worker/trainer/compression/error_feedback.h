#pragma once

// The residuals of compression: the rounding error of each number is kept and added to the next
// step's gradient, so that no information is lost over several steps (error feedback; Seide et
// al., "1-Bit Stochastic Gradient Descent", 2014; Karimireddy et al., "Error Feedback Fixes
// SignSGD", 2019). A rank has residuals of its own contribution, and of the pieces that it
// reduced.
//
// Residuals are part of a rank's elastic state: those of a step count only once the step is
// applied. The residuals of a piece stay with it as long as this rank reduces the same piece, that
// is, as the same rank of a world of the same size; in any other world they become part of the
// rank's own contribution. No other rank has a copy, so they are lost with the rank. They depend
// only on the steps that this rank applied, so a replay of its memberships reproduces them.

#include <cstddef>
#include <span>
#include <vector>

#include "worker/trainer/compression/row_codec.h"
#include "worker/trainer/elastic/state_version.h"

namespace ringmaster::trainer {

// One bucket's share of the residuals during a step; memory of ErrorFeedback, where the codec's is.
struct BucketResiduals {
  std::span<const float> own_before;  // as many as the bucket has gradients
  std::span<float> own_after;
  std::span<const float> piece_before;  // at most as many as a piece; empty if none
  std::span<float> piece_after;
  // Owed of the piece of another world: to be added to the gradients from `moved_begin` on.
  std::span<const float> moved;
  std::size_t moved_begin = 0;
};

// What happened to the residuals on entering a world.
enum class ResidualFate { kNone, kKept, kTakenOver, kDropped };
// none, kept, taken-over (from a step that other ranks saw applied) or dropped.
const char* NameOf(ResidualFate fate);

// The part of a bucket that a rank reduces: the elements [begin, end).
struct Piece {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};
Piece PieceOf(std::size_t count, int rank, int size);
// The size of the largest piece. 0 in a world of one rank, where nothing is encoded again.
std::size_t LargestPiece(std::size_t count, int size);

// Thread-safety: one thread; the memory of Bucket() is used by another between Begin() and the end
// of the step's reductions.
class ErrorFeedback {
 public:
  // `bucket_sizes`: the number of gradients in each bucket. `codec` must outlive the object.
  ErrorFeedback(RowCodec& codec, std::vector<std::size_t> bucket_sizes);

  const std::vector<std::size_t>& bucket_sizes() const { return bucket_sizes_; }

  // Rank `rank` of `size` is about to reduce a step. Once applied, it will be `version`.
  void Begin(const StateVersion& version, int rank, int size);
  // REQUIRES: Begin(). Valid until the next call of any other method.
  BucketResiduals Bucket(int index);
  // The step that began last was applied.
  void Applied();

  // The ranks of a new world agreed on `held`; `changed`: this rank had another state. Where that
  // is of a step which this rank had encoded all of, but did not see the end of, what that step
  // left counts, unless all left the step out. Any other state was trained without this rank, so it
  // has no residuals.
  ResidualFate Adopt(const LocalState& held, bool changed);

 private:
  struct Residuals {
    RowMemory own;
    RowMemory pieces;  // of each bucket, LargestPiece() apart
    int rank = -1;
    int size = 0;
  };
  struct Attempt {
    StateVersion version;
    Residuals left;
  };
  // Worlds that broke in the same step; another rank may still bring any of their states.
  static constexpr std::size_t kMostAttempts = 4;

  std::size_t AllPieces(int size) const;
  std::span<float> PieceIn(Residuals& residuals, int bucket);

  RowCodec& codec_;
  const std::vector<std::size_t> bucket_sizes_;
  const std::size_t gradients_;  // of all buckets
  Residuals owed_;
  bool any_ = false;               // a step left residuals in owed_
  bool same_pieces_ = false;       // of the step under way
  std::vector<Attempt> attempts_;  // at the step after the last applied one; the last is under way
};

}  // namespace ringmaster::trainer
