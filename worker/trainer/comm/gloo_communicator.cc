#include "worker/trainer/comm/gloo_communicator.h"

#include <csignal>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <utility>

#include "worker/trainer/comm/direct_allreduce.h"
#include "worker/trainer/comm/gloo_mesh.h"
#include "worker/trainer/comm/reduce_pieces.h"

namespace ringmaster::trainer {
namespace {

// Gloo writes to sockets that a peer, or ShutDown(), may have closed, and does not ask to be spared
// the signal, which would end the process. The threads that it starts inherit the mask.
void BlockBrokenPipes() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// Gloo asks for a type only to know its size.
void SetOutput(gloo::AllreduceOptions& options, Elements values) {
  switch (SizeOf(values.type)) {
    case 1:
      return options.setOutput(reinterpret_cast<uint8_t*>(values.data), values.count);
    case 2:
      return options.setOutput(reinterpret_cast<uint16_t*>(values.data), values.count);
    case 4:
      return options.setOutput(reinterpret_cast<uint32_t*>(values.data), values.count);
    default:
      return options.setOutput(reinterpret_cast<uint64_t*>(values.data), values.count);
  }
}

void Exchange(const std::shared_ptr<gloo::Context>& context, std::chrono::milliseconds timeout,
              uint32_t tag, std::span<const std::byte> send, const std::vector<int64_t>& to,
              std::span<std::byte> receive, const std::vector<int64_t>& from) {
  gloo::AlltoallvOptions options(context);
  // Gloo only reads from its input, but has no type for that.
  options.setInput(reinterpret_cast<char*>(const_cast<std::byte*>(send.data())), to);
  options.setOutput(reinterpret_cast<char*>(receive.data()), from);
  options.setTag(tag);
  options.setTimeout(timeout);
  gloo::alltoallv(options);
}

}  // namespace

// The sockets, and what the queue's thread keeps for its operations.
class GlooCommunicator::Connection final : public Transport {
 public:
  Result<void> Connect(const World& world, Deadline deadline) override {
    BlockBrokenPipes();
    return mesh_.Connect(world, deadline);
  }
  int missing() const override { return mesh_.missing(); }
  // Also so that the peers do not wait for their own deadlines.
  void ShutDown() override { mesh_.ShutDown(); }

  // The rest by the queue's thread alone. Runs one collective; throws what Gloo throws.
  template <typename Run>
  void Execute(const Run& run, Deadline deadline) {
    run(mesh_.context(), Left(deadline), next_tag_++);
  }
  std::vector<std::byte>& received() { return received_; }  // memory for one operation

 private:
  GlooMesh mesh_;
  uint32_t next_tag_ = 0;
  std::vector<std::byte> received_;
};

GlooCommunicator::GlooCommunicator(const World& world, Deadline deadline, LeftBehind& left_behind)
    : GlooCommunicator(world, deadline, left_behind, std::make_shared<Connection>()) {}

GlooCommunicator::GlooCommunicator(const World& world, Deadline deadline, LeftBehind& left_behind,
                                   std::shared_ptr<Connection> connection)
    : QueuedCommunicator(world, deadline, connection, left_behind),
      connection_(std::move(connection)) {}

template <typename Run>
WorkHandle GlooCommunicator::Add(const char* name, Deadline deadline, Run run) {
  return Enqueue(name, deadline,
                 [connection = connection_.get(), run = std::move(run)](Deadline by) {
                   connection->Execute(run, by);
                 });
}

WorkHandle GlooCommunicator::AllReduce(Elements values, ReduceOp op, Deadline deadline) {
  return Add("allreduce", deadline,
             [values, op, connection = connection_.get()](
                 const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
               if (values.bytes() <= kDirectAllReduceBytes) {
                 return DirectAllReduce(context, timeout, tag, values, op, connection->received());
               }
               gloo::AllreduceOptions options(context);
               SetOutput(options, values);
               options.setReduceFunction(ReduceFunctionFor(values.type, op));
               options.setTag(tag);
               options.setTimeout(timeout);
               gloo::allreduce(options);
             });
}

WorkHandle GlooCommunicator::ReduceScatter(Elements all, Elements mine, ReduceOp op,
                                           Deadline deadline) {
  // Every piece travels once, straight to its rank, which reduces them in the order of the ranks.
  auto pieces = std::make_shared<std::vector<std::byte>>(all.bytes());
  return Add("reduce-scatter", deadline,
             [all, mine, op, pieces, size = this->size()](
                 const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
               const std::vector<int64_t> even(static_cast<std::size_t>(size),
                                               static_cast<int64_t>(mine.bytes()));
               if (mine.count == 0) return;
               Exchange(context, timeout, tag, all.memory(), even, *pieces, even);
               ReducePieces(*pieces, mine, op);
             });
}

WorkHandle GlooCommunicator::AllToAll(std::span<const std::byte> send,
                                      std::vector<std::size_t> send_bytes,
                                      std::span<std::byte> receive,
                                      std::vector<std::size_t> receive_bytes, Deadline deadline) {
  return Add("all-to-all", deadline,
             [send, receive, to = std::vector<int64_t>(send_bytes.begin(), send_bytes.end()),
              from = std::vector<int64_t>(receive_bytes.begin(), receive_bytes.end())](
                 const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
               Exchange(context, timeout, tag, send, to, receive, from);
             });
}

WorkHandle GlooCommunicator::AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                                       Deadline deadline) {
  return Add("allgather", deadline,
             [mine, all](const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
               gloo::AllgatherOptions options(context);
               // Gloo only reads from its input, but has no type for that.
               options.setInput(reinterpret_cast<char*>(const_cast<std::byte*>(mine.data())),
                                mine.size());
               options.setOutput(reinterpret_cast<char*>(all.data()), all.size());
               options.setTag(tag);
               options.setTimeout(timeout);
               gloo::allgather(options);
             });
}

WorkHandle GlooCommunicator::Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) {
  return Add("broadcast", deadline,
             [bytes, root](const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
               gloo::BroadcastOptions options(context);
               options.setOutput(reinterpret_cast<char*>(bytes.data()), bytes.size());
               options.setRoot(root);
               options.setTag(tag);
               options.setTimeout(timeout);
               gloo::broadcast(options);
             });
}

WorkHandle GlooCommunicator::Barrier(Deadline deadline) {
  return Add("barrier", deadline,
             [](const auto& context, std::chrono::milliseconds timeout, uint32_t tag) {
               gloo::BarrierOptions options(context);
               options.setTag(tag);
               options.setTimeout(timeout);
               gloo::barrier(options);
             });
}

}  // namespace ringmaster::trainer
