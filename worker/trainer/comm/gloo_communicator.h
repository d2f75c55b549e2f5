#pragma once

// The communicator over Gloo's TCP transport, for ranks on CPUs. What is under way ends by shutting
// the sockets down, which takes milliseconds.

#include <memory>
#include <span>
#include <vector>

#include "worker/trainer/comm/left_behind.h"
#include "worker/trainer/comm/operation_queue.h"

namespace ringmaster::trainer {

class GlooCommunicator final : public QueuedCommunicator {
 public:
  // Starts to connect this rank with all others of `world`, who do the same through its store;
  // operations called meanwhile wait for it. `left_behind` outlives the object.
  GlooCommunicator(const World& world, Deadline deadline, LeftBehind& left_behind);

  WorkHandle AllReduce(Elements values, ReduceOp op, Deadline deadline) override;
  WorkHandle ReduceScatter(Elements all, Elements mine, ReduceOp op, Deadline deadline) override;
  WorkHandle AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                       Deadline deadline) override;
  WorkHandle AllToAll(std::span<const std::byte> send, std::vector<std::size_t> send_bytes,
                      std::span<std::byte> receive, std::vector<std::size_t> receive_bytes,
                      Deadline deadline) override;
  WorkHandle Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) override;
  WorkHandle Barrier(Deadline deadline) override;

  using Communicator::AllReduce;

 private:
  class Connection;

  GlooCommunicator(const World& world, Deadline deadline, LeftBehind& left_behind,
                   std::shared_ptr<Connection> connection);
  template <typename Run>
  WorkHandle Add(const char* name, Deadline deadline, Run run);

  const std::shared_ptr<Connection> connection_;
};

}  // namespace ringmaster::trainer
