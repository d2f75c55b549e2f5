#pragma once

// A communicator that forwards all calls to another one. Tests derive from it to change or observe
// a single operation. Also used by bench/overhead; header only.

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "worker/trainer/comm/communicator.h"

namespace ringmaster::trainer {

class CommunicatorWrapper : public Communicator {
 public:
  // `inner` must outlive the object.
  explicit CommunicatorWrapper(Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  WorkHandle AllReduce(Elements values, ReduceOp op, Deadline deadline) override {
    return inner_.AllReduce(values, op, deadline);
  }
  WorkHandle ReduceScatter(Elements all, Elements mine, ReduceOp op, Deadline deadline) override {
    return inner_.ReduceScatter(all, mine, op, deadline);
  }
  WorkHandle AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                       Deadline deadline) override {
    return inner_.AllGather(mine, all, deadline);
  }
  WorkHandle AllToAll(std::span<const std::byte> send, std::vector<std::size_t> send_bytes,
                      std::span<std::byte> receive, std::vector<std::size_t> receive_bytes,
                      Deadline deadline) override {
    return inner_.AllToAll(send, std::move(send_bytes), receive, std::move(receive_bytes),
                           deadline);
  }
  WorkHandle Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) override {
    return inner_.Broadcast(bytes, root, deadline);
  }
  WorkHandle Barrier(Deadline deadline) override { return inner_.Barrier(deadline); }
  WorkHandle Confirm(Deadline deadline) override { return inner_.Confirm(deadline); }
  void Abort(const std::string& reason) override { inner_.Abort(reason); }
  int LostPeer() const override { return inner_.LostPeer(); }

  using Communicator::AllReduce;

 protected:
  Communicator& inner() { return inner_; }

 private:
  Communicator& inner_;
};

}  // namespace ringmaster::trainer
