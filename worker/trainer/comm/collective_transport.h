#pragma once

// The communicator for ranks on hosts, and the interface of the blocking operations that it calls.
// Gloo (gloo/) and shared memory (shared_memory/) implement the interface; host/ selects one of
// them for each world.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "worker/trainer/comm/operation_queue.h"

namespace ringmaster::trainer {

// The operations of Communicator. Each function blocks until its operation has ended on this rank,
// and throws if it fails. Thread-safety: one thread at a time.
class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual void AllReduce(Elements values, ReduceOp op, Deadline deadline) = 0;
  // REQUIRES: mine.count > 0.
  virtual void ReduceScatter(Elements all, Elements mine, ReduceOp op, Deadline deadline) = 0;
  virtual void AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                         Deadline deadline) = 0;
  virtual void AllToAll(std::span<const std::byte> send, const std::vector<std::size_t>& send_bytes,
                        std::span<std::byte> receive, const std::vector<std::size_t>& receive_bytes,
                        Deadline deadline) = 0;
  virtual void Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) = 0;
  virtual void Barrier(Deadline deadline) = 0;
};

class CollectiveTransport : public Transport {
 public:
  // Returns the same object at each call. ShutDown() ends the running operations of that object.
  // REQUIRES: Connect() succeeded.
  virtual Collectives& collectives() = 0;
};

class TransportCommunicator : public QueuedCommunicator {
 public:
  // Starts to connect this rank with all others of `world` through its store. Operations wait until
  // it is connected. `abandoned_connects` must outlive the object.
  TransportCommunicator(const World& world, Deadline deadline,
                        std::shared_ptr<CollectiveTransport> transport,
                        AbandonedConnects& abandoned_connects);

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
  CollectiveTransport& transport_;  // owned by the queue, which outlives its operations
};

}  // namespace ringmaster::trainer
