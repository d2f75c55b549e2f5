#pragma once

// The collectives that the computation of a step may use. They are for workloads whose state is
// sharded over the ranks, such as class centres. Implemented by the session; workloads call them
// between the session's Begin() and Reduce().
//
// Calls block until all ranks have made the same call in the same order, or the step is discarded.
// An error means that the step is discarded: return it immediately, and the session continues in
// another world. Memory must be on the communicator's device.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "worker/trainer/comm/elements.h"

namespace ringmaster::trainer {

// Only the session's thread may use it.
class StepCollectives {
 public:
  virtual ~StepCollectives() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // See comm/communicator.h.
  virtual Result<void> AllReduce(Elements values, ReduceOp op) = 0;
  virtual Result<void> ReduceScatter(Elements all, Elements mine, ReduceOp op) = 0;
  virtual Result<void> AllGather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  virtual Result<void> AllToAll(std::span<const std::byte> send,
                                std::vector<std::size_t> send_bytes, std::span<std::byte> receive,
                                std::vector<std::size_t> receive_bytes) = 0;
};

// The collectives of a world of one rank, in host memory, for warm-up and for measurements.
class LoneCollectives final : public StepCollectives {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Result<void> AllReduce(Elements, ReduceOp) override { return {}; }
  Result<void> ReduceScatter(Elements all, Elements mine, ReduceOp) override {
    std::ranges::copy(all.memory(), mine.data);
    return {};
  }
  Result<void> AllGather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    std::ranges::copy(mine, all.begin());
    return {};
  }
  Result<void> AllToAll(std::span<const std::byte> send, std::vector<std::size_t>,
                        std::span<std::byte> receive, std::vector<std::size_t>) override {
    std::ranges::copy(send, receive.begin());
    return {};
  }
};

}  // namespace ringmaster::trainer
