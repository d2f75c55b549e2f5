#pragma once

// A communicator whose ranks are threads that exchange bytes in memory. Operations are complete
// when they return. If one rank aborts, it breaks for all ranks. Tests use it to check sent data.

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "worker/trainer/comm/communicator.h"

namespace ringmaster::trainer {

class MemoryCommunicator final : public Communicator {
 public:
  // The state that the ranks of one world share. Thread-safe.
  class Hub {
   public:
    explicit Hub(int size) : slots_(static_cast<std::size_t>(size)) {}

    // Waits for all ranks, and returns the bytes of every rank; empty after a break.
    std::vector<std::vector<std::byte>> Exchange(int rank, std::span<const std::byte> mine) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return broken_ || leaving_ == 0; });
      slots_[static_cast<std::size_t>(rank)].assign(mine.begin(), mine.end());
      ++arrived_;
      if (arrived_ == slots_.size()) {
        arrived_ = 0;
        leaving_ = slots_.size();
        all_ = slots_;
      }
      changed_.notify_all();
      changed_.wait(lock, [&] { return broken_ || leaving_ > 0; });
      if (broken_) return {};
      std::vector<std::vector<std::byte>> all = all_;
      --leaving_;
      changed_.notify_all();
      return all;
    }
    void Break() {
      const std::lock_guard lock(mutex_);
      broken_ = true;
      changed_.notify_all();
    }
    int size() const { return static_cast<int>(slots_.size()); }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::vector<std::byte>> slots_, all_;
    std::size_t arrived_ = 0;
    std::size_t leaving_ = 0;
    bool broken_ = false;
  };

  // `broadcasts`: the number of broadcasts after which this rank breaks the world; -1: it does
  // not. `flip`: changes one byte of the data that this rank receives.
  MemoryCommunicator(std::shared_ptr<Hub> hub, int rank, int broadcasts = -1, bool flip = false)
      : hub_(std::move(hub)), rank_(rank), broadcasts_(broadcasts), flip_(flip) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }

  WorkHandle AllReduce(Elements, ReduceOp, Deadline deadline) override {
    return Done(deadline, true);
  }
  WorkHandle ReduceScatter(Elements, Elements, ReduceOp, Deadline deadline) override {
    return Done(deadline, true);
  }
  WorkHandle AllToAll(std::span<const std::byte>, std::vector<std::size_t>, std::span<std::byte>,
                      std::vector<std::size_t>, Deadline deadline) override {
    return Done(deadline, true);
  }
  WorkHandle AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                       Deadline deadline) override {
    const auto bytes = hub_->Exchange(rank_, mine);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      std::memcpy(all.data() + i * mine.size(), bytes[i].data(), mine.size());
    }
    return Done(deadline, !bytes.empty());
  }
  WorkHandle Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) override {
    if (broadcasts_-- == 0) hub_->Break();
    const auto all = hub_->Exchange(rank_, bytes);
    if (!all.empty() && rank_ != root) {
      const auto& sent = all[static_cast<std::size_t>(root)];
      std::memcpy(bytes.data(), sent.data(), bytes.size());
      if (flip_) bytes[0] ^= std::byte{1};
    }
    largest_ = std::max(largest_, bytes.size());
    broadcast_deadline_ = deadline;
    return Done(deadline, !all.empty());
  }
  WorkHandle Barrier(Deadline deadline) override { return Done(deadline, true); }
  void Abort(const std::string&) override { hub_->Break(); }

  std::size_t largest_broadcast() const { return largest_; }
  Deadline broadcast_deadline() const { return broadcast_deadline_; }

 private:
  static WorkHandle Done(Deadline deadline, bool well) {
    auto work = std::make_shared<Work>(deadline);
    work->Complete(well ? Result<void>() : Error{ErrorKind::kUnavailable, "a rank went away"});
    return work;
  }

  const std::shared_ptr<Hub> hub_;
  const int rank_;
  int broadcasts_;
  const bool flip_;
  std::size_t largest_ = 0;
  Deadline broadcast_deadline_{};
};

}  // namespace ringmaster::trainer
