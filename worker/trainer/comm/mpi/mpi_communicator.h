#pragma once

// Collectives over MPI, for MpiWorld. All are MPI's non-blocking ones, looked after by the queue's
// thread: so each has a deadline, and Abort() ends it, although MPI can do neither. An operation
// that ended so leaves its request behind; nothing may call MPI after it, and the process ends
// without MPI_Finalize. Private to mpi_world.cc.

#include <memory>
#include <span>
#include <vector>

#include "worker/trainer/comm/left_behind.h"
#include "worker/trainer/comm/operation_queue.h"

namespace ringmaster::trainer {

class MpiCommunicator final : public QueuedCommunicator {
 public:
  // Among the ranks of MPI_COMM_WORLD, which `world` describes. REQUIRES: MPI lets one thread at a
  // time call it, and no other one does. One at a time.
  MpiCommunicator(const World& world, Deadline deadline, LeftBehind& left_behind);

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

  MpiCommunicator(const World& world, Deadline deadline, LeftBehind& left_behind,
                  std::shared_ptr<Connection> connection);

  const std::shared_ptr<Connection> connection_;
};

}  // namespace ringmaster::trainer
