#include "worker/trainer/comm/gloo/direct_allreduce.h"

#include <algorithm>
#include <cstring>

#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>

namespace ringmaster::trainer {
namespace {

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

// A piece of the values, in bytes.
struct Piece {
  std::size_t begin = 0;
  std::size_t size = 0;
};

class DirectReduction {
 public:
  DirectReduction(const std::shared_ptr<gloo::Context>& context, std::chrono::milliseconds timeout,
                  uint32_t tag, Elements values, ReduceOp op, std::vector<std::byte>& received)
      : ranks_(context->size),
        me_(context->rank),
        timeout_(timeout),
        tag_(tag),
        values_(values),
        reduce_(ReduceFunctionFor(values.type, op)),
        whole_(ranks_ == 2),
        room_(PieceOf(0).size),
        received_(received) {
    received_.resize(std::max(received_.size(), room_ * static_cast<std::size_t>(ranks_)));
    mine_ = context->createUnboundBuffer(values_.data, values_.bytes());
    others_ = context->createUnboundBuffer(received_.data(), received_.size());
  }

  void Run() {
    const Piece own = PieceOf(me_);
    const auto first = gloo::Slot::build(gloo::kReduceSlotPrefix, tag_);
    ForOthers([&](int other) {
      const Piece theirs = PieceOf(other);
      if (theirs.size > 0) mine_->send(other, first, theirs.begin, theirs.size);
      if (own.size > 0) others_->recv(other, first, Room(other), own.size);
    });
    ForOthers([&](int other) {
      if (own.size > 0) others_->waitRecv(nullptr, timeout_);
      if (PieceOf(other).size > 0) mine_->waitSend(nullptr, timeout_);
    });
    Reduce(own);
    if (whole_) return;

    const auto second = gloo::Slot::build(gloo::kAllgatherSlotPrefix, tag_);
    ForOthers([&](int other) {
      const Piece theirs = PieceOf(other);
      if (own.size > 0) mine_->send(other, second, own.begin, own.size);
      if (theirs.size > 0) mine_->recv(other, second, theirs.begin, theirs.size);
    });
    ForOthers([&](int other) {
      if (own.size > 0) mine_->waitSend(nullptr, timeout_);
      if (PieceOf(other).size > 0) mine_->waitRecv(nullptr, timeout_);
    });
  }

 private:
  template <typename Do>
  void ForOthers(Do what) const {
    for (int i = 1; i < ranks_; ++i) what((me_ + i) % ranks_);
  }

  // Returns the piece that a rank reduces. The first pieces are the largest.
  Piece PieceOf(int rank) const {
    if (whole_) return {.begin = 0, .size = values_.bytes()};
    const auto ranks = static_cast<std::size_t>(ranks_);
    const auto index = static_cast<std::size_t>(rank);
    const std::size_t one = SizeOf(values_.type);
    const std::size_t least = values_.count / ranks;
    const std::size_t longer = values_.count % ranks;
    return {.begin = one * (index * least + std::min(index, longer)),
            .size = one * (least + (index < longer ? 1 : 0))};
  }

  std::size_t Room(int rank) const { return room_ * static_cast<std::size_t>(rank); }

  // Reduces the received pieces and this rank's own in the order of the ranks.
  void Reduce(const Piece& own) {
    if (own.size == 0) return;
    std::byte* const result = values_.data + own.begin;
    std::memcpy(received_.data() + Room(me_), result, own.size);
    const std::size_t count = own.size / SizeOf(values_.type);
    std::memcpy(result, received_.data(), own.size);
    for (int rank = 1; rank < ranks_; ++rank) {
      reduce_(result, result, received_.data() + Room(rank), count);
    }
  }

  const int ranks_;
  const int me_;
  const std::chrono::milliseconds timeout_;
  const uint32_t tag_;
  const Elements values_;
  const ReduceFunction reduce_;
  const bool whole_;        // true: each rank reduces all values
  const std::size_t room_;  // bytes in received_ for each rank
  std::vector<std::byte>& received_;
  Buffer mine_;
  Buffer others_;
};

}  // namespace

void DirectAllReduce(const std::shared_ptr<gloo::Context>& context,
                     std::chrono::milliseconds timeout, uint32_t tag, Elements values, ReduceOp op,
                     std::vector<std::byte>& received) {
  if (values.count == 0 || context->size == 1) return;
  DirectReduction(context, timeout, tag, values, op, received).Run();
}

}  // namespace ringmaster::trainer
