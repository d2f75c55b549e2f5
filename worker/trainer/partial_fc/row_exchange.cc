#include "worker/trainer/partial_fc/row_exchange.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace ringmaster::trainer::partial_fc {
namespace {

std::vector<std::size_t> FloatsToBytes(std::vector<std::size_t> counts) {
  for (std::size_t& count : counts) count *= sizeof(float);
  return counts;
}

}  // namespace

RowExchange::RowExchange(Communicator& communicator, std::vector<ClassRange> targets,
                         int64_t dimension, Options options, RowStorage& place)
    : communicator_(communicator),
      targets_(std::move(targets)),
      dimension_(dimension),
      options_(std::move(options)),
      piece_rows_(std::max<int64_t>(
          1, static_cast<int64_t>(options_.piece_bytes / sizeof(float)) / (2 * dimension))),
      place_(place) {}

Result<std::vector<std::vector<HeldRows>>> RowExchange::Gather(std::vector<HeldRows> mine) {
  const auto size = static_cast<std::size_t>(communicator_.size());
  counts_.assign(size + 1, 0);
  counts_[size] = static_cast<int64_t>(mine.size());  // this rank's count, which is sent
  const std::span<int64_t> counts(counts_);
  Result<void> gathered = WaitConfirmed(
      communicator_,
      communicator_.AllGather(std::as_bytes(counts.subspan(size)),
                              std::as_writable_bytes(counts.first(size)), deadline()));
  if (!gathered.ok()) return gathered.error();
  const auto most = static_cast<std::size_t>(std::ranges::max(counts.first(size)));
  std::vector<std::vector<HeldRows>> held(size);
  if (most == 0) return held;
  mine_ = std::move(mine);
  mine_.resize(most);
  all_.resize(most * size);
  gathered = WaitConfirmed(
      communicator_, communicator_.AllGather(std::as_bytes(std::span(mine_)),
                                             std::as_writable_bytes(std::span(all_)), deadline()));
  if (!gathered.ok()) return gathered.error();
  for (std::size_t rank = 0; rank < size; ++rank) {
    const auto from = all_.begin() + static_cast<std::ptrdiff_t>(rank * most);
    held[rank].assign(from, from + counts_[rank]);
  }
  return held;
}

Result<void> RowExchange::WorkTogether(const std::function<Result<int64_t>()>& work) {
  do {
    if (options_.moving) options_.moving(pieces_++);
    const Result<int64_t> left = work();
    if (!left.ok()) return left.error();
    left_ = *left;
    const Elements total(reinterpret_cast<std::byte*>(&left_), 1, ElementType::kInt64);
    const Result<void> summed =
        WaitConfirmed(communicator_, communicator_.AllReduce(total, ReduceOp::kSum, deadline()));
    if (!summed.ok()) return summed;
  } while (left_ > 0);
  return {};
}

Result<Rows> RowExchange::Move(const RowPlan& plan, const Provide& provide) {
  staged_ = Rows(Target(communicator_.rank()), dimension_, place_);
  sent_sum_ = 0;
  int64_t longest = 0;
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    longest = std::max(longest, Target(rank).size());
  }
  for (int64_t row = 0; row < longest; row += piece_rows_) {
    if (options_.moving) options_.moving(pieces_++);
    if (Result<void> moved = MovePiece(plan, provide, row); !moved.ok()) return moved.error();
  }
  if (Result<void> sound = CheckSums(); !sound.ok()) return sound.error();
  return std::move(staged_);
}

// Sends to each rank at most one piece of its new shard, from the shard's `first_row` on.
Result<void> RowExchange::MovePiece(const RowPlan& plan, const Provide& provide,
                                    int64_t first_row) {
  const auto size = static_cast<std::size_t>(communicator_.size());
  const auto window_of = [&](int rank) {
    const ClassRange shard = Target(rank);
    const int64_t begin = std::min(shard.begin + first_row, shard.end);
    return ClassRange{begin, std::min(begin + piece_rows_, shard.end)};
  };
  send_.clear();
  std::vector<std::size_t> to(size);
  std::vector<std::size_t> from(size);
  std::vector<ClassRange> arriving;  // in the order of the ranks that send them
  const ClassRange own_window = window_of(communicator_.rank());
  for (std::size_t rank = 0; rank < size; ++rank) {
    const ClassRange window = window_of(static_cast<int>(rank));
    for (const RowSource& source : plan.sources) {
      if (source.rank == communicator_.rank()) {
        const ClassRange range = Overlap(source.range, window);
        if (range.size() > 0) {
          const Rows& rows = provide(source.block);
          const auto floats = static_cast<std::size_t>(range.size() * rows.row_floats());
          sent_sum_ += rows.Checksum(range);
          send_.resize(send_.size() + floats);
          rows.Read(range, std::span(send_).last(floats));
          to[rank] += floats;
        }
      }
      if (source.rank == static_cast<int>(rank)) {
        const ClassRange range = Overlap(source.range, own_window);
        if (range.size() > 0) arriving.push_back(range);
        from[rank] += static_cast<std::size_t>(range.size() * 2 * dimension_);
      }
    }
  }
  receive_.resize(static_cast<std::size_t>(own_window.size() * 2 * dimension_));
  Result<void> moved = communicator_
                           .AllToAll(std::as_bytes(std::span(send_)), FloatsToBytes(std::move(to)),
                                     std::as_writable_bytes(std::span(receive_)),
                                     FloatsToBytes(std::move(from)), deadline())
                           ->Wait();
  if (!moved.ok()) return moved;
  std::span<const float> received(receive_);
  for (const ClassRange& range : arriving) {
    const auto floats = static_cast<std::size_t>(range.size() * staged_.row_floats());
    staged_.Write(range, received.first(floats));
    received = received.subspan(floats);
  }
  return {};
}

Result<std::vector<uint64_t>> RowExchange::GatherNumbers(uint64_t mine) {
  own_number_ = mine;
  numbers_.assign(static_cast<std::size_t>(communicator_.size()), 0);
  const Result<void> gathered = WaitConfirmed(
      communicator_,
      communicator_.AllGather(std::as_bytes(std::span(&own_number_, 1)),
                              std::as_writable_bytes(std::span(numbers_)), deadline()));
  if (!gathered.ok()) return gathered.error();
  return numbers_;
}

Result<uint64_t> RowExchange::SumOver(uint64_t mine) {
  const Result<std::vector<uint64_t>> all = GatherNumbers(mine);
  if (!all.ok()) return all.error();
  return std::accumulate(all->begin(), all->end(), uint64_t{0});
}

Result<void> RowExchange::CheckSums() {
  const Result<uint64_t> sent = SumOver(sent_sum_);
  if (!sent.ok()) return sent.error();
  const Result<uint64_t> received = SumOver(staged_.Checksum());
  if (!received.ok()) return received.error();
  if (*sent == *received) return {};
  return Error{ErrorKind::kUnavailable, "rows of class centres were corrupted in transit"};
}

}  // namespace ringmaster::trainer::partial_fc
