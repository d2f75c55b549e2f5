#pragma once

// A communicator that forwards all calls to another one. Derive from it to change or observe a
// single operation.

#include "worker/trainer/comm/communicator.h"

namespace ringmaster::trainer {

class CommunicatorWrapper : public Communicator {
 public:
  // `inner` must outlive the object.
  explicit CommunicatorWrapper(Communicator& inner) : inner_(inner) {}

  int rank() const override;
  int size() const override;
  WorkHandle AllReduce(Elements values, ReduceOp op, Deadline deadline) override;
  WorkHandle ReduceScatter(Elements all, Elements mine, ReduceOp op, Deadline deadline) override;
  WorkHandle AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                       Deadline deadline) override;
  WorkHandle AllToAll(std::span<const std::byte> send, std::vector<std::size_t> send_bytes,
                      std::span<std::byte> receive, std::vector<std::size_t> receive_bytes,
                      Deadline deadline) override;
  WorkHandle Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) override;
  WorkHandle Barrier(Deadline deadline) override;
  WorkHandle Confirm(Deadline deadline) override;
  void Abort(const std::string& reason) override;
  int LostPeer() const override;

  using Communicator::AllReduce;

 protected:
  Communicator& inner() { return inner_; }

 private:
  Communicator& inner_;
};

}  // namespace ringmaster::trainer
