#pragma once

// The communicator over NCCL, for ranks on GPUs. A collective on device memory starts after all
// work that the calling thread has queued on its compute stream. Host memory is staged through
// device memory. An operation completes when the host has observed its event, so work that is
// queued afterwards on any stream uses the result.
//
// All NCCL calls run on a separate stream and thread (nccl_engine.h), so a world that fails to
// connect does not block the caller. When a world ends, its communicator is revoked or aborted; a
// revoked one may be kept to create the next world's communicator from it (nccl_path.h).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "worker/trainer/comm/abandoned_connects.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/nccl/nccl_runtime.h"

namespace ringmaster::trainer {

class NcclEngine;

class NcclCommunicator final : public Communicator {
 public:
  // Starts to connect this rank with all other ranks of `world` through its store. Operations wait
  // until it is connected. `abandoned_connects` must outlive the object.
  NcclCommunicator(std::shared_ptr<NcclRuntime> runtime, const World& world, Deadline deadline,
                   AbandonedConnects& abandoned_connects);
  // Ends the process if the device does not release the operations within the runtime's limit.
  ~NcclCommunicator() override;

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

  // Launches NCCL calls on device memory as one operation, which the engine watches and ends like
  // all other operations. Used by benchmarks of NCCL.
  using Launch = std::function<NcclResult(const NcclApi& nccl, NcclComm comm, NcclStream stream)>;
  WorkHandle Run(control::CollectiveKind kind, Launch launch, Deadline deadline);

 private:
  const std::shared_ptr<NcclEngine> engine_;  // shared with the thread, which may outlive *this
  AbandonedConnects& abandoned_connects_;
  uint64_t confirmations_ = 0;
  std::jthread thread_;
};

// Exchanges one message with every rank, as an NCCL group, because NCCL's all-to-all does not
// support pieces of different sizes. `to` and `from` are the sizes in bytes.
NcclResult ExchangeOverNccl(const NcclApi& nccl, NcclComm comm, NcclStream stream,
                            const std::byte* send, const std::vector<std::size_t>& to,
                            std::byte* receive, const std::vector<std::size_t>& from);

}  // namespace ringmaster::trainer
