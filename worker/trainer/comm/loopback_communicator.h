#pragma once

// The communicator of a world with one rank: every operation completes immediately.

#include "worker/trainer/comm/communicator.h"

namespace ringmaster::trainer {

class LoopbackCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

  WorkHandle AllReduce(Elements values, ReduceOp op, Deadline deadline) override;
  WorkHandle ReduceScatter(Elements all, Elements mine, ReduceOp op, Deadline deadline) override;
  WorkHandle AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                       Deadline deadline) override;
  WorkHandle AllToAll(std::span<const std::byte> send, std::vector<std::size_t> send_bytes,
                      std::span<std::byte> receive, std::vector<std::size_t> receive_bytes,
                      Deadline deadline) override;
  WorkHandle Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) override;
  WorkHandle Barrier(Deadline deadline) override;
  void Abort(const std::string& reason) override;

  using Communicator::AllReduce;

 private:
  WorkHandle Done(Deadline deadline);

  Mutex mutex_;
  std::optional<Error> aborted_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::trainer
