#pragma once

// The residuals of compression: the rounding error of each number is kept and added to the next
// step's gradient, so that no information is lost over several steps (error feedback; Seide et
// al., "1-Bit Stochastic Gradient Descent", 2014; Karimireddy et al., "Error Feedback Fixes
// SignSGD", 2019). A rank has residuals of its own contribution, and of the pieces that it
// reduced.
//
// Residuals are part of a rank's elastic state: the residuals of a step take effect only once the
// step is applied. The residuals of a piece are kept as long as this rank reduces the same piece,
// that is, has the same rank in a world of the same size. In any other world they become part of
// the rank's own contribution. Other ranks have no copy, so residuals are lost with their rank.
// Residuals depend only on the steps that this rank applied, so a replay computes the same values.

#include <cstddef>
#include <span>
#include <vector>

#include "worker/trainer/compression/row_codec.h"
#include "worker/trainer/elastic/state_version.h"

namespace ringmaster::trainer {

// A bucket's residuals during a step, in memory of ErrorFeedback on the codec's device.
struct BucketResiduals {
  std::span<const float> own_before;  // one for each gradient of the bucket
  std::span<float> own_after;
  std::span<const float> piece_before;  // LargestPiece() values; empty: none
  std::span<float> piece_after;
  // Residuals of a piece from an earlier world, which are added to the gradients at `moved_begin`.
  std::span<const float> moved;
  std::size_t moved_begin = 0;
};

// What happened to a rank's residuals when it entered a world.
enum class ResidualFate { kNone, kKept, kTakenOver, kDropped };
// Returns none, kept, taken-over (from a step that other ranks saw applied) or dropped.
const char* NameOf(ResidualFate fate);

// The part of a bucket that a rank reduces: the elements [begin, end).
struct Piece {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};
Piece PieceOf(std::size_t count, int rank, int size);
// Returns the size of the largest piece. 0 in a world of one rank, which does not encode sums.
std::size_t LargestPiece(std::size_t count, int size);

// Thread-safety: one thread. Another thread may use the memory of Bucket() from Begin() until the
// end of the step's reductions.
class ErrorFeedback {
 public:
  // `bucket_sizes`: the number of gradients in each bucket. `codec` must outlive the object.
  ErrorFeedback(RowCodec& codec, std::vector<std::size_t> bucket_sizes);

  const std::vector<std::size_t>& bucket_sizes() const { return bucket_sizes_; }

  // Call before rank `rank` of `size` reduces a step. The state after the step has `version`.
  void Begin(const StateVersion& version, int rank, int size);
  // Returns spans that are valid until the next call of any other method. REQUIRES: Begin().
  BucketResiduals Bucket(int index);
  // Call when the step that began last has been applied.
  void Applied();

  // Call when the ranks of a new world have agreed on `held`. `changed`: this rank had another
  // state. If `held` is from a step that this rank encoded completely but whose end it missed, the
  // residuals of that step are kept, unless all ranks skipped the step. Any other state was trained
  // without this rank, so the rank then has no residuals.
  ResidualFate Adopt(const LocalState& held, bool changed);

 private:
  struct Residuals {
    RowMemory own;
    RowMemory pieces;  // one piece per bucket, each of LargestPiece() values
    int rank = -1;
    int size = 0;
  };
  struct Attempt {
    StateVersion version;
    Residuals left;
  };
  // The number of kept attempts at a step. Another rank may still provide the state of any of them.
  static constexpr std::size_t kMostAttempts = 4;

  std::size_t AllPieces(int size) const;
  std::span<float> PieceIn(Residuals& residuals, int bucket);

  RowCodec& codec_;
  const std::vector<std::size_t> bucket_sizes_;
  const std::size_t gradients_;  // number of gradients in all buckets
  Residuals owed_;
  bool any_ = false;               // a step has left residuals in owed_
  bool same_pieces_ = false;       // true: the current step has the pieces of owed_
  std::vector<Attempt> attempts_;  // attempts at the step after the last applied one
};

}  // namespace ringmaster::trainer
