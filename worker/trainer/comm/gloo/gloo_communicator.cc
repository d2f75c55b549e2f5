#include "worker/trainer/comm/gloo/gloo_communicator.h"

#include <csignal>
#include <cstddef>
#include <cstring>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

#include "worker/trainer/comm/elements.h"
#include "worker/trainer/comm/gloo/direct_allreduce.h"
#include "worker/trainer/comm/gloo/gloo_mesh.h"
#include "worker/trainer/comm/reduction_order.h"

namespace ringmaster::trainer {
namespace {

// Gloo writes to sockets that a peer or ShutDown() may have closed, but does not block SIGPIPE,
// which would end the process. The threads that Gloo starts inherit the signal mask.
void BlockBrokenPipes() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// Gloo uses the type only to determine the size of an element.
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

// The second half of a reduce-scatter, after each rank has received its piece from every rank.
// Reduces `pieces`, each as long as `mine`, into `mine` in the order of the ranks.
void ReducePieces(const std::vector<std::byte>& pieces, Elements mine, ReduceOp op) {
  const ReduceFunction reduce = ReduceFunctionFor(mine.type, op);
  std::memcpy(mine.data, pieces.data(), mine.bytes());
  for (std::size_t at = mine.bytes(); at < pieces.size(); at += mine.bytes()) {
    reduce(mine.data, mine.data, pieces.data() + at, mine.count);
  }
}

class GlooTransport final : public CollectiveTransport, private Collectives {
 public:
  Result<void> Connect(const World& world, Deadline deadline) override {
    BlockBrokenPipes();
    return mesh_.Connect(world, deadline);
  }
  int missing() const override { return mesh_.missing(); }
  // Closing the connections also ends the peers' waits, before the peers' deadlines.
  void ShutDown() override { mesh_.ShutDown(); }
  // The destructor closes the connections. ShutDown() would also shut down the sockets of other
  // ranks in this process, because they have the same addresses. Those ranks would lose their
  // unsent data, and Gloo does not wake an operation that waits for the rest of a message.
  void Leave() override {}
  Collectives& collectives() override { return *this; }

 private:
  void AllReduce(Elements values, ReduceOp op, Deadline deadline) override {
    if (values.bytes() <= kDirectAllReduceBytes) {
      return DirectAllReduce(context(), Left(deadline), next_tag_++, values, op, received_);
    }
    gloo::AllreduceOptions options(context());
    SetOutput(options, values);
    options.setReduceFunction(ReduceFunctionFor(values.type, op));
    Run(gloo::allreduce, options, deadline);
  }

  void ReduceScatter(Elements all, Elements mine, ReduceOp op, Deadline deadline) override {
    // Each piece is sent directly to one rank, which reduces the received pieces in rank order.
    std::vector<std::byte> pieces(all.bytes());
    const std::vector<int64_t> even(static_cast<std::size_t>(context()->size),
                                    static_cast<int64_t>(mine.bytes()));
    Exchange(all.memory(), even, pieces, even, deadline);
    ReducePieces(pieces, mine, op);
  }

  void AllToAll(std::span<const std::byte> send, const std::vector<std::size_t>& send_bytes,
                std::span<std::byte> receive, const std::vector<std::size_t>& receive_bytes,
                Deadline deadline) override {
    Exchange(send, {send_bytes.begin(), send_bytes.end()}, receive,
             {receive_bytes.begin(), receive_bytes.end()}, deadline);
  }

  void AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                 Deadline deadline) override {
    gloo::AllgatherOptions options(context());
    // Gloo only reads from its input, but its API is not const.
    options.setInput(reinterpret_cast<char*>(const_cast<std::byte*>(mine.data())), mine.size());
    options.setOutput(reinterpret_cast<char*>(all.data()), all.size());
    Run(gloo::allgather, options, deadline);
  }

  void Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) override {
    gloo::BroadcastOptions options(context());
    options.setOutput(reinterpret_cast<char*>(bytes.data()), bytes.size());
    options.setRoot(root);
    Run(gloo::broadcast, options, deadline);
  }

  void Barrier(Deadline deadline) override {
    gloo::BarrierOptions options(context());
    Run(gloo::barrier, options, deadline);
  }

  const std::shared_ptr<gloo::Context>& context() const { return mesh_.context(); }

  template <typename Collective, typename Options>
  void Run(Collective collective, Options& options, Deadline deadline) {
    options.setTag(next_tag_++);
    options.setTimeout(Left(deadline));
    collective(options);
  }

  void Exchange(std::span<const std::byte> send, const std::vector<int64_t>& to,
                std::span<std::byte> receive, const std::vector<int64_t>& from, Deadline deadline) {
    gloo::AlltoallvOptions options(context());
    options.setInput(reinterpret_cast<char*>(const_cast<std::byte*>(send.data())), to);
    options.setOutput(reinterpret_cast<char*>(receive.data()), from);
    Run(gloo::alltoallv, options, deadline);
  }

  GlooMesh mesh_;
  uint32_t next_tag_ = 0;
  std::vector<std::byte> received_;  // scratch memory of AllReduce()
};

}  // namespace

std::shared_ptr<CollectiveTransport> MakeGlooTransport() {
  return std::make_shared<GlooTransport>();
}

}  // namespace ringmaster::trainer
