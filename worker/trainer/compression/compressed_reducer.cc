#include "worker/trainer/compression/compressed_reducer.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

// Returns the members of `before` that are not in `now`, separated by commas.
std::string Departed(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  std::string departed;
  for (const std::string& member : before) {
    if (std::ranges::find(now, member) != now.end()) continue;
    departed += (departed.empty() ? "" : ",") + member;
  }
  return departed;
}

}  // namespace

CompressedReducer::CompressedReducer(Communicator& communicator, RowCodec& codec,
                                     ErrorFeedback& feedback)
    : communicator_(communicator), codec_(codec), feedback_(feedback) {
  if (communicator_.size() > 1) {
    const std::size_t most = std::ranges::max(feedback_.bucket_sizes());
    for (Wire& wire : wires_) {
      All(wire.outgoing, most);
      All(wire.incoming, most);
    }
    sum_.Floats(codec_, LargestPiece(most, communicator_.size()));
  }
  thread_ = std::jthread([this] { Serve(); });
}

CompressedReducer::~CompressedReducer() { Stop(); }

WorkHandle CompressedReducer::Reduce(int bucket, std::span<float> values, std::span<float> exact,
                                     Deadline deadline) {
  auto work = std::make_shared<Work>(deadline);
  const Result<RowCodec::Mark> computed = codec_.Computed();
  const MutexLock lock(mutex_);
  if (!computed.ok() && !broken_) broken_ = computed.error();
  if (broken_) {
    work->Complete(*broken_);
    return work;
  }
  queue_.push_back({bucket, values, exact, *computed, work});
  wake_.NotifyOne();
  return work;
}

void CompressedReducer::Stop() {
  const Error stopped{ErrorKind::kCancelled, "the rank left the world during a step"};
  bool under_way = false;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    under_way = !queue_.empty() || !travelling_.empty();
    wake_.NotifyOne();
  }
  if (under_way) communicator_.Abort(stopped.message);
  if (thread_.joinable()) thread_.join();
  Fail(stopped);
}

void CompressedReducer::Serve() {
  Result<void> going = codec_.Attach();
  while (going.ok()) {
    const std::optional<Task> task = Next();
    if (!task) break;
    going = Advance(*task);
  }
  codec_.Quiesce();
  if (!going.ok()) Fail(going.error());
}

std::optional<CompressedReducer::Task> CompressedReducer::Next() {
  MutexLock lock(mutex_);
  wake_.Wait(mutex_, [&]() RINGMASTER_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
  if (stopping_) return std::nullopt;
  travelling_.push_back(std::move(queue_.front()));
  queue_.pop_front();
  return travelling_.back();
}

// Sends the task's bucket and performs the next operation of the earlier buckets.
Result<void> CompressedReducer::Advance(const Task& task) {
  task.work->Begin();
  if (Result<void> follows = codec_.StartAfter(task.computed); !follows.ok()) return follows;
  if (communicator_.size() == 1) return PayOff(task);
  Result<Travelling> prepared = Send(task);
  if (!prepared.ok()) return prepared.error();
  std::optional<Travelling> sent = *std::move(prepared);
  for (;;) {
    if (exchanging_) {
      if (Result<void> summed = SumAndGather(*exchanging_); !summed.ok()) return summed;
    }
    if (gathering_) {
      if (Result<void> received = Receive(*gathering_); !received.ok()) return received;
    }
    gathering_ = std::exchange(exchanging_, std::exchange(sent, std::nullopt));
    const bool last = static_cast<std::size_t>(task.bucket) + 1 == feedback_.bucket_sizes().size();
    if (!last || (!exchanging_ && !gathering_)) return {};
  }
}

Result<void> CompressedReducer::PayOff(const Task& task) {
  // Only a call to the communicator shows whether the world still exists.
  const WorkHandle reduced = communicator_.AllReduce(task.values, task.work->deadline());
  if (Result<void> stands = reduced->Wait(); !stands.ok()) return stands;
  if (Result<void> moved = AddMoved(task); !moved.ok()) return moved;
  const BucketResiduals residuals = feedback_.Bucket(task.bucket);
  if (Result<void> paid = codec_.Add(residuals.own_before, task.values); !paid.ok()) return paid;
  if (Result<void> even = codec_.Zero(residuals.own_after); !even.ok()) return even;
  return Finish(task);
}

// Adds the residual of the piece that this rank reduced in an earlier world.
Result<void> CompressedReducer::AddMoved(const Task& task) {
  const BucketResiduals residuals = feedback_.Bucket(task.bucket);
  if (residuals.moved.empty()) return {};
  return codec_.Add(residuals.moved,
                    task.values.subspan(residuals.moved_begin, residuals.moved.size()));
}

Result<CompressedReducer::Travelling> CompressedReducer::Send(const Task& task) {
  if (Result<void> moved = AddMoved(task); !moved.ok()) return moved.error();
  Travelling sent{.task = task,
                  .wire = &wires_[static_cast<std::size_t>(task.bucket) % wires_.size()],
                  .exchange = {},
                  .exact = {}};
  const int size = communicator_.size();
  const Deadline deadline = task.work->deadline();
  const BucketResiduals residuals = feedback_.Bucket(task.bucket);
  const std::size_t slot = SlotBytes(task.values.size());
  const std::span<std::byte> outgoing = All(sent.wire->outgoing, task.values.size());
  for (int rank = 0; rank < size; ++rank) {
    const Piece piece = PieceOf(task.values.size(), rank, size);
    Result<void> encoded =
        codec_.Encode(task.values.subspan(piece.begin, piece.size()),
                      residuals.own_before.subspan(piece.begin, piece.size()),
                      residuals.own_after.subspan(piece.begin, piece.size()),
                      outgoing.subspan(static_cast<std::size_t>(rank) * slot, slot));
    if (!encoded.ok()) return encoded.error();
  }
  const std::vector<std::size_t> even(static_cast<std::size_t>(size), slot);
  sent.exchange = communicator_.AllToAll(
      outgoing, even, All(sent.wire->incoming, task.values.size()), even, deadline);
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
  const std::span<std::byte> incoming = All(bucket.wire->incoming, count);
  const std::span<float> sum = sum_.Floats(codec_, mine);
  Result<void> done = codec_.Decode(incoming.first(slot), sum);
  for (int rank = 1; rank < size && done.ok(); ++rank) {
    done = codec_.DecodeAdd(incoming.subspan(static_cast<std::size_t>(rank) * slot, slot), sum);
  }
  if (!done.ok()) return done;
  const std::span<const float> owed =
      residuals.piece_before.empty() ? residuals.piece_before : residuals.piece_before.first(mine);
  done = codec_.Encode(sum, owed, residuals.piece_after.first(mine), incoming.first(slot));
  if (!done.ok()) return done;
  bucket.exchange = communicator_.AllGather(incoming.first(slot), All(bucket.wire->outgoing, count),
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
  const std::span<const std::byte> gathered = All(bucket.wire->outgoing, values.size());
  for (int rank = 0; rank < size; ++rank) {
    const Piece piece = PieceOf(values.size(), rank, size);
    Result<void> decoded =
        codec_.Decode(gathered.subspan(static_cast<std::size_t>(rank) * slot, slot),
                      values.subspan(piece.begin, piece.size()));
    if (!decoded.ok()) return decoded;
  }
  return Finish(bucket.task);
}

// Completes the task's work, after which the caller may read the values.
Result<void> CompressedReducer::Finish(const Task& task) {
  if (Result<void> done = codec_.Finish(task.work->deadline()); !done.ok()) return done;
  const MutexLock lock(mutex_);
  travelling_.pop_front();
  task.work->Complete({});
  return {};
}

// Ends all pending and later operations with the first error.
void CompressedReducer::Fail(const Error& error) {
  const MutexLock lock(mutex_);
  if (!broken_) broken_ = error;
  for (const std::deque<Task>* tasks : {&travelling_, &queue_}) {
    for (const Task& task : *tasks) task.work->Complete(*broken_);
  }
  travelling_.clear();
  queue_.clear();
}

std::size_t CompressedReducer::SlotBytes(std::size_t count) const {
  return codec_.EncodedBytes(LargestPiece(count, communicator_.size()));
}

// Returns one slot per rank for a bucket of `count` elements.
std::span<std::byte> CompressedReducer::All(RowMemory& memory, std::size_t count) {
  return memory.Bytes(codec_, SlotBytes(count) * static_cast<std::size_t>(communicator_.size()));
}

// Only this rank knows its residuals of earlier steps, so it logs what happened to them.
std::string CompressedGradients::EnterWorld(Communicator& communicator, const World& world,
                                            const Adopted& adopted) {
  const ResidualFate fate = feedback_.Adopt(adopted.held, adopted.changed);
  const std::string departed = Departed(members_, world.members);
  if (fate == ResidualFate::kDropped || !departed.empty()) {
    LogWarn("Discarded compression residuals of earlier steps",
            {{"this_rank", NameOf(fate)}, {"with_members", departed}});
  }
  rank_ = world.rank;
  size_ = world.size;
  members_ = world.members;
  reducer_ = std::make_unique<CompressedReducer>(communicator, codec_, feedback_);
  return NameOf(fate);
}

void CompressedGradients::Stop() {
  if (reducer_) reducer_->Stop();
}

void CompressedGradients::Begin(const StateVersion& version) {
  feedback_.Begin(version, rank_, size_);
}

WorkHandle CompressedGradients::Reduce(int bucket, Elements values, std::size_t exact,
                                       Deadline deadline) {
  const std::span<float> all(reinterpret_cast<float*>(values.data), values.count);
  return reducer_->Reduce(bucket, all.first(all.size() - exact), all.last(exact), deadline);
}

std::unique_ptr<GradientReducer> MakeCompressedGradients(RowCodec* codec,
                                                         std::vector<std::size_t> gradients) {
  if (codec == nullptr) return nullptr;
  return std::make_unique<CompressedGradients>(*codec, std::move(gradients));
}

}  // namespace ringmaster::trainer
