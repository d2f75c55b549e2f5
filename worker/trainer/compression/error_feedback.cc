#include "worker/trainer/compression/error_feedback.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ringmaster::trainer {

const char* NameOf(ResidualFate fate) {
  switch (fate) {
    case ResidualFate::kNone:
      return "none";
    case ResidualFate::kKept:
      return "kept";
    case ResidualFate::kTakenOver:
      return "taken-over";
    case ResidualFate::kDropped:
      return "dropped";
  }
  return "";
}

Piece PieceOf(std::size_t count, int rank, int size) {
  const auto r = static_cast<std::size_t>(rank);
  const auto n = static_cast<std::size_t>(size);
  return {.begin = count * r / n, .end = count * (r + 1) / n};
}

std::size_t LargestPiece(std::size_t count, int size) {
  const auto n = static_cast<std::size_t>(size);
  return size == 1 ? 0 : (count + n - 1) / n;
}

ErrorFeedback::ErrorFeedback(RowCodec& codec, std::vector<std::size_t> bucket_sizes)
    : codec_(codec),
      bucket_sizes_(std::move(bucket_sizes)),
      gradients_(std::accumulate(bucket_sizes_.begin(), bucket_sizes_.end(), std::size_t{0})) {
  owed_.own.Floats(codec_, gradients_);
}

std::size_t ErrorFeedback::AllPieces(int size) const {
  std::size_t pieces = 0;
  for (const std::size_t count : bucket_sizes_) pieces += LargestPiece(count, size);
  return pieces;
}

void ErrorFeedback::Begin(const StateVersion& version, int rank, int size) {
  const bool again = !attempts_.empty() && attempts_.back().version == version;
  if (!again && attempts_.size() == kMostAttempts) attempts_.erase(attempts_.begin());
  if (!again) attempts_.emplace_back();
  Attempt& attempt = attempts_.back();
  attempt.version = version;
  attempt.left.rank = rank;
  attempt.left.size = size;
  attempt.left.own.Floats(codec_, gradients_);
  attempt.left.pieces.Floats(codec_, AllPieces(size));
  same_pieces_ = any_ && owed_.rank == rank && owed_.size == size;
}

std::span<float> ErrorFeedback::PieceIn(Residuals& residuals, int bucket) {
  std::size_t begin = 0;
  for (int i = 0; i < bucket; ++i) {
    begin += LargestPiece(bucket_sizes_[static_cast<std::size_t>(i)], residuals.size);
  }
  return residuals.pieces.Floats(codec_, AllPieces(residuals.size))
      .subspan(begin,
               LargestPiece(bucket_sizes_[static_cast<std::size_t>(bucket)], residuals.size));
}

BucketResiduals ErrorFeedback::Bucket(int index) {
  Residuals& left = attempts_.back().left;
  const auto first = bucket_sizes_.begin();
  const std::size_t own = std::accumulate(first, first + index, std::size_t{0});
  const std::size_t count = first[index];
  BucketResiduals residuals{.own_before = owed_.own.Floats(codec_, gradients_).subspan(own, count),
                            .own_after = left.own.Floats(codec_, gradients_).subspan(own, count),
                            .piece_before = {},
                            .piece_after = PieceIn(left, index),
                            .moved = {}};
  if (same_pieces_) {
    residuals.piece_before = PieceIn(owed_, index);
  } else if (any_ && owed_.size > 1) {
    const Piece piece = PieceOf(count, owed_.rank, owed_.size);
    residuals.moved = PieceIn(owed_, index).first(piece.size());
    residuals.moved_begin = piece.begin;
  }
  return residuals;
}

void ErrorFeedback::Applied() {
  std::swap(owed_, attempts_.back().left);
  any_ = true;
  // Keep one attempt to reuse its memory; its residuals are no longer used.
  if (attempts_.size() > 1) std::swap(attempts_.front(), attempts_.back());
  attempts_.resize(1);
  attempts_.front().version = {};
}

ResidualFate ErrorFeedback::Adopt(const LocalState& held, bool changed) {
  const ResidualFate unchanged = any_ ? ResidualFate::kKept : ResidualFate::kNone;
  if (!changed) return unchanged;
  const auto seen = std::find_if(attempts_.begin(), attempts_.end(), [&](const Attempt& attempt) {
    return attempt.version == held.version;
  });
  if (seen != attempts_.end() && held.last_step_skipped) return unchanged;
  if (seen != attempts_.end()) {
    std::swap(*seen, attempts_.back());
    Applied();
    return ResidualFate::kTakenOver;
  }
  const bool dropped = any_;
  attempts_.clear();
  owed_.own = {};  // replaced by new memory, which is zeroed
  owed_.own.Floats(codec_, gradients_);
  any_ = false;
  return dropped ? ResidualFate::kDropped : ResidualFate::kNone;
}

}  // namespace ringmaster::trainer
