#pragma once

// The communicator over Gloo's TCP transport, for ranks on CPUs. Connecting and all operations run
// on one thread of the object's own, so that reductions overlap with the caller's computing and a
// world that never comes together costs the caller nothing but the object: while it connects,
// destruction waits for nobody and leaves the thread behind; later, it ends the operation under way
// by shutting the sockets down, which takes milliseconds.

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/left_behind.h"

namespace ringmaster::trainer {

class GlooCommunicator final : public Communicator {
 public:
  // Starts to connect this rank with all others of `world`, who do the same through its store;
  // operations called meanwhile wait for it. `left_behind` outlives the object.
  GlooCommunicator(const World& world, Deadline deadline, LeftBehind& left_behind);
  ~GlooCommunicator() override;

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
  void Abort(const std::string& reason) override;
  int LostPeer() const override;

  using Communicator::AllReduce;

 private:
  class Engine;  // shared with the thread, which may outlive this object

  const std::shared_ptr<Engine> engine_;
  LeftBehind& left_behind_;
  std::jthread thread_;
};

}  // namespace ringmaster::trainer
