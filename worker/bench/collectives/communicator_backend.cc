#include "worker/bench/collectives/communicator_backend.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "common/control/pod_contract.h"
#include "worker/bench/command.h"
#include "worker/bench/ranks.h"
#include "worker/trainer/comm/host_communicator.h"
#include "worker/trainer/comm/left_behind.h"
#include "worker/trainer/comm/loopback_communicator.h"
#include "worker/trainer/gpu/gpu.h"

namespace ringmaster::bench {
namespace {

using trainer::Communicator;
using trainer::Deadline;
using trainer::Elements;

constexpr std::chrono::minutes kOperationTimeout{5};

Deadline Later() { return std::chrono::steady_clock::now() + kOperationTimeout; }

class CommunicatorBackend final : public Backend {
 public:
  // On a GPU, or on the host where it is null.
  explicit CommunicatorBackend(std::unique_ptr<trainer::Gpu> gpu) : gpu_(std::move(gpu)) {
    at::set_num_threads(1);  // a rank's copies are no work for several
  }

  Result<void> Connect(const std::string& name, const trainer::World& world) {
    Result<std::unique_ptr<Communicator>> made = Make(name, world);
    if (!made.ok()) return made.error();
    communicator_ = *std::move(made);
    return {};
  }

  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }
  std::string device() const override { return gpu_ == nullptr ? "cpu" : gpu_->device(); }
  bool Supports(trainer::ElementType, trainer::ReduceOp) const override { return true; }

  Result<void> Run(const Call& call) override { return Start(call)->Wait(); }
  Result<void> Barrier() override { return communicator_->Barrier(Later())->Wait(); }

 private:
  Result<std::unique_ptr<Communicator>> Make(const std::string& name, const trainer::World& world) {
    if (gpu_ != nullptr) return gpu_->communicators(left_behind_)(world, Later());
    if (world.size == 1) {
      return std::unique_ptr<Communicator>(new trainer::LoopbackCommunicator());
    }
    return trainer::MakeHostCommunicator(world, Later(), left_behind_,
                                         *trainer::HostTransportOf(name));
  }

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
    Elements send = call.send;
    if (send.data == call.receive.data) {  // what is sent must not change while it travels
      staged_ = BytesOf(send).clone();
      send.data = static_cast<std::byte*>(staged_.data_ptr());
    }
    return communicator_->AllToAll(send.memory(), even, call.receive.memory(), even, Later());
  }

  // Memory of a measured call, which is this backend's device's.
  at::Tensor BytesOf(const Elements& elements) const {
    return at::from_blob(elements.data, {static_cast<int64_t>(elements.bytes())},
                         at::TensorOptions().dtype(at::kByte).device(at::Device(device())));
  }
  void Copy(const Elements& from, const Elements& to) const {
    if (from.data != to.data) BytesOf(to).copy_(BytesOf(from));
  }

  const std::unique_ptr<trainer::Gpu> gpu_;
  trainer::LeftBehind left_behind_;
  at::Tensor staged_;
  std::unique_ptr<Communicator> communicator_;  // before its memory, and what it works with
};

int LocalRank(const trainer::World& world) {
  const char* const slot = std::getenv(control::kEnvSlot);
  return UnderAgent() && slot != nullptr ? std::atoi(slot) : world.rank;
}

Result<int> GpuOf(int local_rank) {
  const auto number = trainer::ChooseGpu({.device = "cuda",
                                          .local_rank = local_rank,
                                          .share = trainer::GpusAreShared(),
                                          .flag = "--backend=nccl"},
                                         trainer::FindGpus());
  if (!number.ok()) return number.error();
  return number->value();
}

// To NCCL each rank is on a host of its own, if its user says that there are several: so ranks may
// share a GPU.
void NameHost(int rank) {
  const char* const host = std::getenv("NCCL_HOSTID");
  if (host == nullptr || UnderAgent()) return;
  ::setenv("NCCL_HOSTID", (std::string(host) + "-" + std::to_string(rank)).c_str(), 1);
}

}  // namespace

Result<std::unique_ptr<Backend>> MakeCommunicatorBackend(const std::string& name,
                                                         const trainer::World& world) {
  std::unique_ptr<trainer::Gpu> gpu;
  if (name == "nccl") {
    NameHost(world.rank);
    const Result<int> number = GpuOf(LocalRank(world));
    if (!number.ok()) return number.error();
    Result<std::unique_ptr<trainer::Gpu>> opened = trainer::OpenGpu(*number);
    if (!opened.ok()) return opened.error();
    gpu = *std::move(opened);
  }
  auto backend = std::make_unique<CommunicatorBackend>(std::move(gpu));
  if (Result<void> connected = backend->Connect(name, world); !connected.ok()) {
    return connected.error();
  }
  return std::unique_ptr<Backend>(std::move(backend));
}

// In a process of its own, because CUDA, once started, does not survive a fork.
Result<void> CheckGpus(int ranks) {
  std::array<int, 2> said{};
  if (::pipe(said.data()) != 0) return Error{ErrorKind::kUnavailable, "no pipe is to be had"};
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Result<int> number = GpuOf(rank);
      if (number.ok()) continue;
      const std::string& why = number.error().message;
      ::_exit(::write(said[1], why.data(), why.size()) > 0 ? kBadInput : 1);
    }
    ::_exit(0);
  }
  ::close(said[1]);
  std::string why;
  std::array<char, 512> text{};
  for (ssize_t got = 0; (got = ::read(said[0], text.data(), text.size())) > 0;) {
    why.append(text.data(), static_cast<std::size_t>(got));
  }
  ::close(said[0]);
  int status = 1;
  if (child > 0 && ::waitpid(child, &status, 0) == child && status == 0) return {};
  return Error{ErrorKind::kInvalid,
               why.empty() ? "--backend=nccl: looking for GPUs ended in a crash" : why};
}

}  // namespace ringmaster::bench
