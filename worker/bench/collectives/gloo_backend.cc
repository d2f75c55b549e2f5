#include "worker/bench/collectives/gloo_backend.h"

#include <cstring>
#include <vector>

#include "worker/trainer/comm/gloo_communicator.h"
#include "worker/trainer/comm/left_behind.h"
#include "worker/trainer/comm/loopback_communicator.h"

namespace ringmaster::bench {
namespace {

using trainer::Deadline;
using trainer::Elements;

constexpr std::chrono::minutes kOperationTimeout{5};

Deadline Later() { return std::chrono::steady_clock::now() + kOperationTimeout; }

void Copy(const Elements& from, const Elements& to) {
  if (from.data != to.data) std::memcpy(to.data, from.data, from.bytes());
}

class GlooBackend final : public Backend {
 public:
  explicit GlooBackend(const trainer::World& world) {
    if (world.size == 1) {
      communicator_ = std::make_unique<trainer::LoopbackCommunicator>();
    } else {
      communicator_ = std::make_unique<trainer::GlooCommunicator>(world, Later(), left_behind_);
    }
  }

  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }
  bool Supports(trainer::ElementType, trainer::ReduceOp) const override { return true; }

  Result<void> Run(const Call& call) override { return Start(call)->Wait(); }
  Result<void> Barrier() override { return communicator_->Barrier(Later())->Wait(); }

 private:
  trainer::WorkHandle Start(const Call& call) {
    switch (call.collective) {
      case Collective::kAllReduce:
        Copy(call.send, call.receive);
        return communicator_->AllReduce(call.receive, call.op, Later());
      case Collective::kReduceScatter:
        return communicator_->ReduceScatter(call.send, call.receive, call.op, Later());
      case Collective::kAllGather:
        return communicator_->AllGather(call.send.memory(), call.receive.memory(), Later());
      case Collective::kAllToAll:
        return AllToAll(call);
      case Collective::kBroadcast:
        if (rank() == call.root) Copy(call.send, call.receive);
        return communicator_->Broadcast(call.receive.memory(), call.root, Later());
    }
    return {};
  }

  trainer::WorkHandle AllToAll(const Call& call) {
    const auto ranks = static_cast<std::size_t>(size());
    const std::vector<std::size_t> even(ranks, call.send.bytes() / ranks);
    std::span<const std::byte> send = call.send.memory();
    if (call.send.data == call.receive.data) {  // what is sent must not change while it travels
      staged_.assign(send.begin(), send.end());
      send = staged_;
    }
    return communicator_->AllToAll(send, even, call.receive.memory(), even, Later());
  }

  trainer::LeftBehind left_behind_;
  std::vector<std::byte> staged_;
  std::unique_ptr<trainer::Communicator> communicator_;
};

}  // namespace

std::unique_ptr<Backend> MakeGlooBackend(const trainer::World& world) {
  return std::make_unique<GlooBackend>(world);
}

}  // namespace ringmaster::bench
