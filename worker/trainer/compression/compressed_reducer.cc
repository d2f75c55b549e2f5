#include "worker/trainer/compression/compressed_reducer.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace ringmaster::trainer {

CompressedReducer::CompressedReducer(Communicator& communicator, Compression compression,
                                     int bucket_count, ErrorFeedback& feedback)
    : communicator_(communicator),
      compression_(compression),
      bucket_count_(bucket_count),
      feedback_(feedback) {
  thread_ = std::jthread([this] { Serve(); });
}

CompressedReducer::~CompressedReducer() { Stop(); }

WorkHandle CompressedReducer::Reduce(int bucket, std::span<float> values, std::span<float> exact,
                                     Deadline deadline) {
  auto work = std::make_shared<Work>(deadline);
  const std::lock_guard lock(mutex_);
  if (broken_) {
    work->Complete(*broken_);
    return work;
  }
  queue_.push_back({bucket, values, exact, work});
  wake_.notify_one();
  return work;
}

void CompressedReducer::Stop() {
  const Error stopped{ErrorKind::kCancelled, "the world was left in the middle of a step"};
  bool under_way = false;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    under_way = !queue_.empty() || !travelling_.empty();
    wake_.notify_one();
  }
  if (under_way) communicator_.Abort(stopped.message);
  if (thread_.joinable()) thread_.join();
  Fail(stopped);
}

void CompressedReducer::Serve() {
  while (const std::optional<Task> task = Next()) {
    if (const Result<void> advanced = Advance(*task); !advanced.ok()) return Fail(advanced.error());
  }
}

std::optional<CompressedReducer::Task> CompressedReducer::Next() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
  if (stopping_) return std::nullopt;
  travelling_.push_back(std::move(queue_.front()));
  queue_.pop_front();
  return travelling_.back();
}

// One bucket more is there: it is sent, and those before it move on.
Result<void> CompressedReducer::Advance(const Task& task) {
  task.work->Begin();
  if (communicator_.size() == 1) return PayOff(task);
  std::optional<Travelling> sent = Send(task);
  for (;;) {
    if (exchanging_) {
      if (Result<void> summed = SumAndGather(*exchanging_); !summed.ok()) return summed;
    }
    if (gathering_) {
      if (Result<void> received = Receive(*gathering_); !received.ok()) return received;
    }
    gathering_ = std::exchange(exchanging_, std::exchange(sent, std::nullopt));
    const bool last = task.bucket + 1 == bucket_count_;
    if (!last || (!exchanging_ && !gathering_)) return {};
  }
}

Result<void> CompressedReducer::PayOff(const Task& task) {
  // The communicator knows whether the world still stands.
  const WorkHandle reduced = communicator_.AllReduce(task.values, task.work->deadline());
  if (Result<void> stands = reduced->Wait(); !stands.ok()) return stands;
  const BucketResiduals residuals = feedback_.Bucket(task.bucket);
  std::ranges::transform(task.values, residuals.own_before, task.values.begin(), std::plus<>());
  std::ranges::fill(residuals.own_after, 0.0F);
  Finish(task);
  return {};
}

CompressedReducer::Travelling CompressedReducer::Send(const Task& task) {
  Travelling sent{.task = task,
                  .wire = &wires_[static_cast<std::size_t>(task.bucket) % wires_.size()],
                  .exchange = {},
                  .exact = {}};
  const int size = communicator_.size();
  const Deadline deadline = task.work->deadline();
  const BucketResiduals residuals = feedback_.Bucket(task.bucket);
  const std::size_t slot = SlotBytes(task.values.size());
  const std::size_t all = slot * static_cast<std::size_t>(size);
  sent.wire->outgoing.resize(all);
  sent.wire->incoming.resize(all);
  for (int rank = 0; rank < size; ++rank) {
    const Piece piece = PieceOf(task.values.size(), rank, size);
    Encode(compression_, task.values.subspan(piece.begin, piece.size()),
           residuals.own_before.subspan(piece.begin, piece.size()),
           residuals.own_after.subspan(piece.begin, piece.size()),
           std::span(sent.wire->outgoing).subspan(static_cast<std::size_t>(rank) * slot));
  }
  const std::vector<std::size_t> even(static_cast<std::size_t>(size), slot);
  sent.exchange =
      communicator_.AllToAll(sent.wire->outgoing, even, sent.wire->incoming, even, deadline);
  if (!task.exact.empty()) sent.exact = communicator_.AllReduce(task.exact, deadline);
  return sent;
}

Result<void> CompressedReducer::SumAndGather(Travelling& bucket) {
  if (Result<void> exchanged = bucket.exchange->Wait(); !exchanged.ok()) return exchanged;
  const int size = communicator_.size();
  const std::size_t count = bucket.task.values.size();
  const std::size_t slot = SlotBytes(count);
  const std::size_t mine = PieceOf(count, communicator_.rank(), size).size();
  const BucketResiduals residuals = feedback_.Bucket(bucket.task.bucket);
  const std::span<std::byte> incoming(bucket.wire->incoming);
  sum_.resize(std::max(sum_.size(), mine));
  const std::span<float> sum = std::span(sum_).first(mine);
  Decode(compression_, incoming, sum);
  for (int rank = 1; rank < size; ++rank) {
    DecodeAdd(compression_, incoming.subspan(static_cast<std::size_t>(rank) * slot), sum);
  }
  const std::span<const float> owed =
      residuals.piece_before.empty() ? residuals.piece_before : residuals.piece_before.first(mine);
  Encode(compression_, sum, owed, residuals.piece_after.first(mine), incoming);
  bucket.exchange = communicator_.AllGather(incoming.first(slot), bucket.wire->outgoing,
                                            bucket.task.work->deadline());
  return {};
}

Result<void> CompressedReducer::Receive(const Travelling& bucket) {
  if (Result<void> gathered = bucket.exchange->Wait(); !gathered.ok()) return gathered;
  if (bucket.exact) {
    if (Result<void> reduced = bucket.exact->Wait(); !reduced.ok()) return reduced;
  }
  const int size = communicator_.size();
  const std::span<float> values = bucket.task.values;
  const std::size_t slot = SlotBytes(values.size());
  for (int rank = 0; rank < size; ++rank) {
    const Piece piece = PieceOf(values.size(), rank, size);
    Decode(compression_,
           std::span<const std::byte>(bucket.wire->outgoing)
               .subspan(static_cast<std::size_t>(rank) * slot),
           values.subspan(piece.begin, piece.size()));
  }
  Finish(bucket.task);
  return {};
}

void CompressedReducer::Finish(const Task& task) {
  const std::lock_guard lock(mutex_);
  travelling_.pop_front();
  task.work->Complete({});
}

// Everything that has not ended, and everything later, ends with the first error.
void CompressedReducer::Fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!broken_) broken_ = error;
  for (const std::deque<Task>* tasks : {&travelling_, &queue_}) {
    for (const Task& task : *tasks) task.work->Complete(*broken_);
  }
  travelling_.clear();
  queue_.clear();
}

std::size_t CompressedReducer::SlotBytes(std::size_t count) const {
  return EncodedBytes(compression_, LargestPiece(count, communicator_.size()));
}

}  // namespace ringmaster::trainer
