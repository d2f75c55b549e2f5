#pragma once

// Runs a step's collectives directly on a communicator, for tests without a session.

#include <chrono>
#include <utility>
#include <vector>

#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/elastic/step_collectives.h"

namespace ringmaster::trainer {

class CommunicatorCollectives final : public StepCollectives {
 public:
  explicit CommunicatorCollectives(Communicator& communicator) : communicator_(communicator) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  Result<void> AllReduce(Elements values, ReduceOp op) override {
    return communicator_.AllReduce(values, op, Limit())->Wait();
  }
  Result<void> ReduceScatter(Elements all, Elements mine, ReduceOp op) override {
    return communicator_.ReduceScatter(all, mine, op, Limit())->Wait();
  }
  Result<void> AllGather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    return communicator_.AllGather(mine, all, Limit())->Wait();
  }
  Result<void> AllToAll(std::span<const std::byte> send, std::vector<std::size_t> send_bytes,
                        std::span<std::byte> receive,
                        std::vector<std::size_t> receive_bytes) override {
    return communicator_
        .AllToAll(send, std::move(send_bytes), receive, std::move(receive_bytes), Limit())
        ->Wait();
  }

 private:
  static Deadline Limit() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }

  Communicator& communicator_;
};

}  // namespace ringmaster::trainer
