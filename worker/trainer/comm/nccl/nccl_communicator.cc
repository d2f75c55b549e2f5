#include "worker/trainer/comm/nccl/nccl_communicator.h"

#include <cstring>
#include <utility>

#include "worker/trainer/comm/nccl/nccl_engine.h"
#include "worker/trainer/numeric/checksum_words.h"

namespace ringmaster::trainer {
namespace {

using control::CollectiveKind;

// Prepares an operation: finds or stages the device memory of each argument.
class Preparation {
 public:
  Preparation(NcclEngine& engine, CollectiveKind kind, Deadline deadline) : engine_(engine) {
    operation_.kind = kind;
    operation_.work = std::make_shared<Work>(deadline);
  }

  const void* In(std::span<const std::byte> memory) {
    return Place({const_cast<std::byte*>(memory.data()), memory.size()}, true, false);
  }
  void* Out(std::span<std::byte> memory) { return Place(memory, false, true); }
  void* InOut(std::span<std::byte> memory) { return Place(memory, true, true); }
  // Call if the memory of all arguments is on the device.
  void OnDevice() { on_device_ = true; }

  void Confirms(uint64_t part, std::function<bool()> sound) {
    operation_.part = part;
    operation_.sound = std::move(sound);
  }

  WorkHandle Start(NcclOperation::Launch launch) {
    WorkHandle work = operation_.work;
    if (!error_ && on_device_) error_ = AfterComputing();
    if (error_) {
      const Error error =
          error_->WithContext(std::string("preparing a collective (") + operation_.name() + ")");
      engine_.Break(error);  // so that other ranks do not wait for this rank
    }
    operation_.launch = std::move(launch);
    engine_.Enqueue(std::move(operation_));
    return work;
  }

 private:
  void* Place(std::span<std::byte> memory, bool in, bool out) {
    if (memory.empty()) return nullptr;
    NcclRuntime& runtime = engine_.runtime();
    if (runtime.device().Holds(memory.data())) {
      on_device_ = true;
      return memory.data();
    }
    const Result<StagingPiece> piece = runtime.staging().Take(memory.size());
    if (!piece.ok()) {
      if (!error_) error_ = piece.error();
      return nullptr;
    }
    if (in) std::memcpy(piece->pinned, memory.data(), memory.size());
    operation_.staged.push_back({.piece = *piece, .host = memory, .in = in, .out = out});
    return piece->device;
  }

  std::optional<Error> AfterComputing() {
    const Result<DeviceEvent> event = engine_.events().Take();
    if (!event.ok()) return event.error();
    operation_.ready = *event;
    DeviceApi& device = engine_.runtime().device();
    const Result<void> recorded = device.Record(*event, device.ComputingStream());
    if (!recorded.ok()) return recorded.error();
    return std::nullopt;
  }

  NcclEngine& engine_;
  NcclOperation operation_;
  bool on_device_ = false;
  std::optional<Error> error_;
};

// Returns the value that each rank adds to its `number`-th confirmation of a world. It is odd, so
// that no sum over ranks is zero, and unique, so that it differs from older values in the memory.
uint64_t ConfirmationOf(const World& world, uint64_t number) {
  const auto term = static_cast<uint64_t>(world.epoch.term);
  const auto epoch = static_cast<uint64_t>(world.epoch.number);
  return MixChecksum(MixChecksum(MixChecksum(0, term), epoch), number) | 1;
}

}  // namespace

NcclResult ExchangeOverNccl(const NcclApi& nccl, NcclComm comm, NcclStream stream,
                            const std::byte* send, const std::vector<std::size_t>& to,
                            std::byte* receive, const std::vector<std::size_t>& from) {
  NcclResult result = nccl.group_start();
  if (result != NcclResult::kSuccess) return result;
  const auto note = [&result](NcclResult of) {
    if (of != NcclResult::kSuccess && of != NcclResult::kInProgress) result = of;
  };
  for (std::size_t peer = 0; peer < to.size(); ++peer) {
    const int rank = static_cast<int>(peer);
    if (to[peer] > 0) note(nccl.send(send, to[peer], NcclType::kUint8, rank, comm, stream));
    if (from[peer] > 0) {
      note(nccl.receive(receive, from[peer], NcclType::kUint8, rank, comm, stream));
    }
    if (to[peer] > 0) send += to[peer];
    if (from[peer] > 0) receive += from[peer];
  }
  const NcclResult ended = nccl.group_end();
  return result == NcclResult::kSuccess ? ended : result;
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclRuntime> runtime, const World& world,
                                   Deadline deadline, AbandonedConnects& abandoned_connects)
    : engine_(std::make_shared<NcclEngine>(std::move(runtime), world)),
      abandoned_connects_(abandoned_connects) {
  thread_ = std::jthread([engine = engine_, deadline] { engine->Serve(deadline); });
}

NcclCommunicator::~NcclCommunicator() {
  if (engine_->Stop()) {
    thread_.join();
  } else {
    abandoned_connects_.Take(std::move(thread_), {engine_, &engine_->ended()});
  }
}

int NcclCommunicator::rank() const { return engine_->world().rank; }
int NcclCommunicator::size() const { return engine_->world().size; }

void NcclCommunicator::Abort(const std::string& reason) {
  engine_->Break(Error{ErrorKind::kCancelled, reason});
}

int NcclCommunicator::LostPeer() const { return engine_->LostPeer(); }

WorkHandle NcclCommunicator::AllReduce(Elements values, ReduceOp op, Deadline deadline) {
  Preparation prepared(*engine_, CollectiveKind::kAllReduce, deadline);
  void* const memory = prepared.InOut(values.memory());
  return prepared.Start(
      [=, count = values.count, type = NcclTypeOf(values.type), how = NcclOpOf(op)](
          const NcclApi& nccl, NcclComm comm, NcclStream stream) {
        return nccl.all_reduce(memory, memory, count, type, how, comm, stream);
      });
}

WorkHandle NcclCommunicator::ReduceScatter(Elements all, Elements mine, ReduceOp op,
                                           Deadline deadline) {
  Preparation prepared(*engine_, CollectiveKind::kReduceScatter, deadline);
  const void* const from = prepared.In(all.memory());
  void* const to = prepared.Out(mine.memory());
  return prepared.Start([=, count = mine.count, type = NcclTypeOf(mine.type), how = NcclOpOf(op)](
                            const NcclApi& nccl, NcclComm comm, NcclStream stream) {
    return nccl.reduce_scatter(from, to, count, type, how, comm, stream);
  });
}

WorkHandle NcclCommunicator::AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                                       Deadline deadline) {
  Preparation prepared(*engine_, CollectiveKind::kAllGather, deadline);
  const void* const from = prepared.In(mine);
  void* const to = prepared.Out(all);
  return prepared.Start(
      [=, bytes = mine.size()](const NcclApi& nccl, NcclComm comm, NcclStream stream) {
        return nccl.all_gather(from, to, bytes, NcclType::kUint8, comm, stream);
      });
}

WorkHandle NcclCommunicator::AllToAll(std::span<const std::byte> send,
                                      std::vector<std::size_t> send_bytes,
                                      std::span<std::byte> receive,
                                      std::vector<std::size_t> receive_bytes, Deadline deadline) {
  Preparation prepared(*engine_, CollectiveKind::kAllToAll, deadline);
  const auto* const from = static_cast<const std::byte*>(prepared.In(send));
  auto* const to = static_cast<std::byte*>(prepared.Out(receive));
  return prepared.Start(
      [from, to, send_bytes = std::move(send_bytes), receive_bytes = std::move(receive_bytes)](
          const NcclApi& nccl, NcclComm comm, NcclStream stream) {
        return ExchangeOverNccl(nccl, comm, stream, from, send_bytes, to, receive_bytes);
      });
}

WorkHandle NcclCommunicator::Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) {
  Preparation prepared(*engine_, CollectiveKind::kBroadcast, deadline);
  void* const memory = rank() == root ? const_cast<void*>(prepared.In(bytes)) : prepared.Out(bytes);
  return prepared.Start(
      [=, size = bytes.size()](const NcclApi& nccl, NcclComm comm, NcclStream stream) {
        return nccl.broadcast(memory, memory, size, NcclType::kUint8, root, comm, stream);
      });
}

// Reduces one number, because NCCL has no barrier.
WorkHandle NcclCommunicator::Barrier(Deadline deadline) {
  Preparation prepared(*engine_, CollectiveKind::kBarrier, deadline);
  static constexpr std::byte kNothing{0};
  // The call reduces a staged copy, so the constant itself is only read.
  void* const memory = const_cast<void*>(prepared.In({&kNothing, 1}));
  return prepared.Start([=](const NcclApi& nccl, NcclComm comm, NcclStream stream) {
    return nccl.all_reduce(memory, memory, 1, NcclType::kUint8, NcclOp::kSum, comm, stream);
  });
}

WorkHandle NcclCommunicator::Run(CollectiveKind kind, Launch launch, Deadline deadline) {
  Preparation prepared(*engine_, kind, deadline);
  prepared.OnDevice();
  return prepared.Start(std::move(launch));
}

// The sum is correct only if every rank added its part. A rank's device adds its part after all
// earlier operations have ended, unless the rank has abandoned one of them.
WorkHandle NcclCommunicator::Confirm(Deadline deadline) {
  const uint64_t mine = ConfirmationOf(engine_->world(), ++confirmations_);
  const auto sum = std::make_shared<uint64_t>(0);
  Preparation prepared(*engine_, CollectiveKind::kConfirmation, deadline);
  void* const memory = prepared.Out(std::as_writable_bytes(std::span(sum.get(), 1)));
  prepared.Confirms(mine,
                    [sum, all = mine * static_cast<uint64_t>(size())] { return *sum == all; });
  return prepared.Start([=](const NcclApi& nccl, NcclComm comm, NcclStream stream) {
    return nccl.all_reduce(memory, memory, 1, NcclType::kUint64, NcclOp::kSum, comm, stream);
  });
}

}  // namespace ringmaster::trainer
