#include "worker/bench/collectives/backend.h"

#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "common/control/pod_contract.h"
#include "worker/bench/harness/handover.h"
#include "worker/bench/harness/ranks.h"
#include "worker/trainer/comm/abandoned_connects.h"
#include "worker/trainer/comm/host/transport_choice.h"
#include "worker/trainer/comm/loopback_communicator.h"
#include "worker/trainer/gpu/gpu.h"

namespace ringmaster::bench {
namespace {

using trainer::Communicator;
using trainer::Deadline;
using trainer::Elements;

constexpr std::chrono::minutes kOperationTimeout{5};

Deadline Later() { return std::chrono::steady_clock::now() + kOperationTimeout; }

// The trainer's communicators, on the memory that they work on: Gloo's and the one over shared
// memory on the host's, NCCL's on a GPU's. The bench's operations run in place there, so what
// out-of-place operations copy first is in their time.
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
    if (gpu_ != nullptr) return gpu_->communicators(abandoned_connects_)(world, Later());
    if (world.size == 1) {
      return std::unique_ptr<Communicator>(new trainer::LoopbackCommunicator());
    }
    return trainer::MakeHostCommunicator(world, Later(), abandoned_connects_,
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
  trainer::AbandonedConnects abandoned_connects_;
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

// Whether each of `ranks` on this machine finds a GPU for NCCL; kInvalid: why one does not. In a
// process of its own, because CUDA, once started, does not survive a fork.
[[maybe_unused]] Result<void> CheckGpus(int ranks) {
  const std::optional<ChildReport> child = InAProcess([ranks]() -> std::string {
    for (int rank = 0; rank < ranks; ++rank) {
      if (const Result<int> number = GpuOf(rank); !number.ok()) return number.error().message;
    }
    return "";
  });
  if (!child) {
    return Error{ErrorKind::kInvalid, "--backend=nccl: looking for GPUs ended in a crash"};
  }
  return child->text.empty() ? Result<void>() : Error{ErrorKind::kInvalid, child->text};
}

// Whether Open MPI's mpirun started this process.
bool UnderMpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

Result<void> CheckMpi() {
#if defined(RINGMASTER_BENCH_MPI)
  if (UnderMpirun()) return {};
  return Error{ErrorKind::kInvalid,
               "--backend=mpi measures the ranks that mpirun starts: mpirun -n 2 ringmaster-bench "
               "allreduce --backend=mpi"};
#else
  return Error{ErrorKind::kInvalid,
               "--backend=mpi: this build has no MPI (it was built without Open MPI's headers); "
               "use --backend=gloo"};
#endif
}

Result<void> CheckNccl([[maybe_unused]] int ranks) {
#if defined(RINGMASTER_BENCH_CUDA)
  if (UnderAgent()) return {};  // this rank sees for itself
  return CheckGpus(ranks);
#else
  return Error{ErrorKind::kInvalid,
               "--backend=nccl: this build has no NCCL communicator (it was built without CUDA); "
               "use --backend=gloo"};
#endif
}

}  // namespace

Result<void> CheckBackend(const std::string& name, int ranks) {
  if (name == "mpi") return CheckMpi();
  if (!UnderAgent() && UnderMpirun()) {
    return Error{ErrorKind::kInvalid,
                 "--backend=" + name +
                     " starts its own ranks, or is started by a TrainingJob; under mpirun use "
                     "--backend=mpi"};
  }
  return name == "nccl" ? CheckNccl(ranks) : Result<void>();
}

Result<std::unique_ptr<Backend>> MakeBackend(const std::string& name, const trainer::World& world) {
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

}  // namespace ringmaster::bench
