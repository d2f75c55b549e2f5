#include "worker/trainer/partial_fc/copies.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "worker/trainer/numeric/share.h"
#include "worker/trainer/partial_fc/row_plan.h"

namespace ringmaster::trainer::partial_fc {
namespace {

constexpr StateVersion kAbsent{.epoch = {}, .step = -1};
// The number of pieces in an exchange while copies are incomplete. Four pieces cause four times the
// traffic, but shorten the time without protection to a quarter.
constexpr int kHurry = 4;

ClassRange PieceOf(ClassRange shard, int piece, int pieces) {
  const Share share = ShareOf(piece, pieces, shard.size());
  return {shard.begin + share.begin, shard.begin + share.end};
}

}  // namespace

void Block::Materialise(const HeadOptions& options, HeadDevice& device) {
  if (rows.range() == range) return;
  rows = Rows::Initial(range, options.dimension, options.sampling.seed, device);
  visiting = !device.on_host();
}

void Block::Advance(const HeadOptions& options, const InputLog& log, HeadDevice& device,
                    ShardStep& step) {
  Materialise(options, device);
  if (rows.on_host() && !device.on_host()) {
    rows = rows.On(device);
    visiting = true;
  }
  const StepInputs& inputs = log.After(version);
  Replay(options, inputs, device, step, rows);
  version = inputs.version;
}

void Block::Settle(const HeadOptions& options, HeadDevice& device) {
  Materialise(options, device);
  if (visiting) rows = rows.On(HostRows());
  visiting = false;
}

ClassRange CopyRound::RowsOf(ClassRange shard, int all_pieces) const {
  if (pieces == 0) return {shard.begin, shard.begin};
  return {PieceOf(shard, first_piece, all_pieces).begin,
          PieceOf(shard, first_piece + pieces - 1, all_pieces).end};
}

void Copies::Enter(ClassRange source, bool as_initialised) {
  for (Block& piece : pieces_) {
    if (piece.version != kAbsent && piece.range.size() > 0) older_.push_back(std::move(piece));
  }
  DropOutdated();
  pieces_.clear();
  source_ = source;
  exchanges_ = 0;
  complete_ = began_complete_ = as_initialised;
  if (as_initialised) older_.clear();
  for (int piece = 0; piece < every_; ++piece) {
    pieces_.push_back({.range = PieceOf(source, piece, every_),
                       .version = as_initialised ? StateVersion{} : kAbsent});
  }
}

// Removes each copy whose rows a newer copy contains. Several worlds may follow each other before a
// copy is complete, and their copies must not fill the memory.
void Copies::DropOutdated() {
  std::vector<Block> newest;
  std::ranges::stable_sort(older_, std::ranges::greater(), &Block::version);
  for (Block& block : older_) {
    const bool outdated = std::ranges::any_of(newest, [&](const Block& other) {
      return Overlap(block.range, other.range) == block.range;
    });
    if (!outdated) newest.push_back(std::move(block));
  }
  older_ = std::move(newest);
}

void Copies::Clear() {
  pieces_.clear();
  older_.clear();
  complete_ = began_complete_ = false;
  exchanges_ = 0;
}

// Returns how many exchanges of a world have kHurry pieces.
int64_t Copies::hurried() const { return began_complete_ ? 0 : (every_ + kHurry - 1) / kHurry; }

CopyRound Copies::next() const {
  if (exchanges_ < hurried()) {
    const int first = static_cast<int>(exchanges_) * kHurry;
    return {.first_piece = first, .pieces = std::min(kHurry, every_ - first)};
  }
  return {.first_piece = static_cast<int>((exchanges_ - hurried()) % every_), .pieces = 1};
}

void Copies::Received(ClassRange range, std::span<const float> rows, const StateVersion& version,
                      int64_t dimension) {
  const CopyRound round = next();
  for (int i = round.first_piece; i < round.first_piece + round.pieces; ++i) {
    Block& piece = pieces_[static_cast<std::size_t>(i)];
    if (piece.rows.range() != piece.range || piece.visiting) {
      piece.rows = Rows(piece.range, dimension);
      piece.visiting = false;
    }
    const auto from =
        rows.subspan(static_cast<std::size_t>((piece.range.begin - range.begin) * 2 * dimension),
                     piece.rows.values().size());
    piece.rows.Write(piece.range, from);
    piece.version = version;
  }
  ++exchanges_;
  // All ranks have the last piece only after the following step, because a rank that missed the end
  // of an exchange's step rolls forward without the received rows.
  if (!complete_ && exchanges_ > hurried()) {
    complete_ = true;
    older_.clear();
  }
}

std::vector<Block*> Copies::blocks() {
  std::vector<Block*> all;
  for (Block& block : older_) all.push_back(&block);
  for (Block& block : pieces_) {
    if (block.version != kAbsent && block.range.size() > 0) all.push_back(&block);
  }
  return all;
}

StateVersion Copies::Oldest(const StateVersion& present) const {
  StateVersion oldest = present;
  const auto consider = [&](const Block& block) {
    if (block.version != kAbsent && block.range.size() > 0) {
      oldest = std::min(oldest, block.version);
    }
  };
  std::ranges::for_each(older_, consider);
  std::ranges::for_each(pieces_, consider);
  return oldest;
}

std::size_t Copies::bytes() const {
  std::size_t floats = 0;
  for (const Block& block : older_) floats += block.rows.values().size();
  for (const Block& block : pieces_) floats += block.rows.values().size();
  return floats * sizeof(float);
}

}  // namespace ringmaster::trainer::partial_fc
