#include "worker/bench/collectives/backend.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <utility>

#include <ATen/Parallel.h>

#include "common/control/pod_contract.h"
#include "worker/bench/collectives/nccl_calls.h"
#include "worker/bench/harness/handover.h"
#include "worker/bench/harness/ranks.h"
#include "worker/trainer/comm/abandoned_connects.h"
#include "worker/trainer/comm/host/transport_choice.h"
#include "worker/trainer/comm/loopback_communicator.h"
#include "worker/trainer/comm/nccl/nccl_api.h"
#include "worker/trainer/comm/nccl/nccl_communicator.h"
#include "worker/trainer/environment/rank_environment.h"
#include "worker/trainer/gpu/gpu.h"

namespace ringmaster::bench {
namespace {

using trainer::Communicator;
using trainer::Deadline;
using trainer::Elements;

constexpr std::chrono::minutes kOperationTimeout{5};

// The maximum number of queued operations, which limits the memory for their handles.
constexpr std::size_t kMostQueued = 1024;

// Uses the trainer's communicators: Gloo and shared memory for host memory, and direct NCCL calls
// for GPU memory. In host memory, the communicators' allreduce and broadcast work in place
// only, so the time of out-of-place operations includes a copy.
class CommunicatorBackend final : public Backend {
 public:
  // Uses GPU memory, or host memory if `gpu` is null.
  explicit CommunicatorBackend(std::unique_ptr<trainer::Gpu> gpu) : gpu_(std::move(gpu)) {
    at::set_num_threads(1);  // a rank's buffers are too small for several threads
  }

  // Allocates the buffers that Connect() registers with NCCL. Call before Connect().
  Result<void> Register(std::size_t bytes) {
    for (std::byte*& buffer : registered_) {
      buffer = static_cast<std::byte*>(gpu_->ReducedInPlace(bytes));
      if (buffer != nullptr) continue;
      return Error{ErrorKind::kInvalid,
                   "-R 1: NCCL cannot register memory: it is older than " +
                       trainer::NcclVersionText(trainer::kNcclRegisterSince) +
                       ", uses CollNet, or has no free memory on the GPU; remove -R"};
    }
    return {};
  }

  Result<void> Connect(const std::string& name, const trainer::World& world) {
    Result<std::unique_ptr<Communicator>> made = Make(name, world);
    if (!made.ok()) return made.error();
    communicator_ = *std::move(made);
    nccl_ = dynamic_cast<trainer::NcclCommunicator*>(communicator_.get());
    return {};
  }

  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }
  std::string device() const override { return gpu_ == nullptr ? "cpu" : gpu_->device(); }
  std::array<std::byte*, 2> registered() const override { return registered_; }

  Result<void> Start(std::span<const Call> together) override {
    if (nccl_ != nullptr) {
      return Queue(StartOnNccl(*nccl_, together, Later()), together.front().receive.data);
    }
    for (const Call& call : together) {
      if (Result<void> placed = PlaceInput(call); !placed.ok()) return placed;
      if (Result<void> queued = Queue(StartOnHost(call), call.receive.data); !queued.ok()) {
        return queued;
      }
    }
    return {};
  }

  Result<void> Finish() override {
    while (!queued_.empty()) {
      if (Result<void> done = WaitForFirst(); !done.ok()) return done;
    }
    return {};
  }

  Result<void> Barrier() override { return communicator_->Barrier(Later())->Wait(); }
  Result<void> Agree(Elements value, trainer::ReduceOp op) override {
    return communicator_->AllReduce(value, op, Later())->Wait();
  }

 private:
  struct Queued {
    trainer::WorkHandle work;
    const std::byte* into;
  };

  Result<std::unique_ptr<Communicator>> Make(const std::string& name, const trainer::World& world) {
    if (gpu_ != nullptr) return gpu_->communicators(abandoned_connects_)(world, Later());
    if (world.size == 1) {
      return std::unique_ptr<Communicator>(new trainer::LoopbackCommunicator());
    }
    return trainer::MakeHostCommunicator(world, Later(), abandoned_connects_,
                                         *trainer::HostTransportOf(name));
  }

  // Returns the deadline of an operation that runs after all operations in the queue.
  Deadline Later() const {
    return std::chrono::steady_clock::now() +
           kOperationTimeout * (static_cast<int>(queued_.size()) + 1);
  }

  // If the trainer supports the operation only in place, copies the input to the place of the
  // result. Before that, waits for queued operations that write to the same place.
  Result<void> PlaceInput(const Call& call) {
    const bool places = call.collective == Collective::kAllReduce ||
                        (call.collective == Collective::kBroadcast && rank() == call.root);
    if (!places || call.send.data == call.receive.data) return {};
    const auto works_there = [&](const Queued& one) { return one.into == call.receive.data; };
    while (std::ranges::any_of(queued_, works_there)) {
      if (Result<void> done = WaitForFirst(); !done.ok()) return done;
    }
    std::copy_n(call.send.data, call.send.bytes(), call.receive.data);
    return {};
  }

  trainer::WorkHandle StartOnHost(const Call& call) {
    switch (call.collective) {
      case Collective::kAllReduce:
        return communicator_->AllReduce(call.receive, call.op, Later());
      case Collective::kReduceScatter:
        return communicator_->ReduceScatter(call.send, call.receive, call.op, Later());
      case Collective::kAllGather:
        return communicator_->AllGather(call.send.memory(), call.receive.memory(), Later());
      case Collective::kBroadcast:
        return communicator_->Broadcast(call.receive.memory(), call.root, Later());
      case Collective::kAllToAll:
      case Collective::kGather:
      case Collective::kScatter:
      case Collective::kSendRecv:
        return Exchange(call);
      case Collective::kReduce:
        break;  // CheckBackend() rejects it
    }
    return {};
  }

  trainer::WorkHandle Exchange(const Call& call) {
    Messages messages = MessagesOf(call, rank(), size());
    const std::size_t sent = std::reduce(messages.to.begin(), messages.to.end());
    const std::size_t received = std::reduce(messages.from.begin(), messages.from.end());
    return communicator_->AllToAll(call.send.memory().first(sent), std::move(messages.to),
                                   call.receive.memory().first(received), std::move(messages.from),
                                   Later());
  }

  Result<void> Queue(trainer::WorkHandle work, const std::byte* into) {
    queued_.push_back({.work = std::move(work), .into = into});
    return queued_.size() < kMostQueued ? Result<void>() : WaitForFirst();
  }

  Result<void> WaitForFirst() {
    const trainer::WorkHandle work = queued_.front().work;
    queued_.pop_front();
    return work->Wait();
  }

  const std::unique_ptr<trainer::Gpu> gpu_;
  trainer::AbandonedConnects abandoned_connects_;
  std::array<std::byte*, 2> registered_{};
  std::deque<Queued> queued_;
  std::unique_ptr<Communicator> communicator_;  // destroyed first
  trainer::NcclCommunicator* nccl_ = nullptr;   // communicator_, or null if it is not NCCL's
};

Result<int> GpuOf(int rank) {
  const auto number = trainer::ChooseGpu(GpuRequestOf(rank), trainer::FindGpus());
  if (!number.ok()) return number.error();
  return number->value();
}

// Makes NCCL treat each rank as a separate host if the user sets NCCL_HOSTID, so that ranks can
// share a GPU.
void NameHost(int rank) {
  const char* const host = std::getenv("NCCL_HOSTID");
  if (host == nullptr || UnderAgent()) return;
  ::setenv("NCCL_HOSTID", (std::string(host) + "-" + std::to_string(rank)).c_str(), 1);
}

// Checks that each of the `ranks` ranks on this host finds a GPU for NCCL. kInvalid: one does not.
// Runs in a child process, because a process that has started CUDA cannot use it after a fork.
[[maybe_unused]] Result<void> CheckGpus(int ranks) {
  const std::optional<ChildReport> child = InAProcess([ranks]() -> std::string {
    for (int rank = 0; rank < ranks; ++rank) {
      if (const Result<int> number = GpuOf(rank); !number.ok()) return number.error().message;
    }
    return "";
  });
  if (!child) {
    return Error{ErrorKind::kInvalid, "--backend=nccl: crashed while looking for GPUs"};
  }
  return child->text.empty() ? Result<void>() : Error{ErrorKind::kInvalid, child->text};
}

// Returns whether Open MPI's mpirun started this process.
bool UnderMpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

Result<void> CheckMpi() {
#if defined(RINGMASTER_BENCH_MPI)
  if (UnderMpirun()) return {};
  return Error{ErrorKind::kInvalid,
               "--backend=mpi measures the ranks that mpirun starts: mpirun -n 2 ringmaster-bench "
               "allreduce --backend=mpi"};
#else
  return Error{
      ErrorKind::kInvalid,
      "--backend=mpi: this build does not include MPI (it was built without the Open MPI headers); "
      "use --backend=gloo"};
#endif
}

Result<void> CheckNccl([[maybe_unused]] int ranks) {
#if defined(RINGMASTER_BENCH_CUDA)
  if (UnderAgent()) return {};  // MakeBackend() checks the GPU of this rank
  return CheckGpus(ranks);
#else
  return Error{ErrorKind::kInvalid,
               "--backend=nccl: this build does not include NCCL (it was built without CUDA); "
               "use --backend=gloo"};
#endif
}

}  // namespace

trainer::GpuRequest GpuRequestOf(int rank) {
  return {.device = "cuda",
          .gpus = 0,
          .local_rank = UnderAgent() ? trainer::NumberIn(control::kEnvSlot) : rank,
          .share = trainer::GpusAreShared(),
          .flag = "--backend=nccl",
          .pinned = UnderAgent() ? trainer::PinnedGpu() : ""};
}

std::string ChooseBackend(std::optional<int> gpus_of_pod, const trainer::GpuFacts& facts) {
  const bool given = gpus_of_pod ? *gpus_of_pod > 0 : !facts.gpus.empty();
  return facts.built_in && given ? "nccl" : "gloo";
}

std::string AutoBackend() {
  std::optional<int> gpus_of_pod;
  if (UnderAgent()) gpus_of_pod = trainer::NumberIn(control::kEnvGpus);
  // Runs in a child process for the same reason as in CheckGpus().
  const auto child = InAProcess([&] { return ChooseBackend(gpus_of_pod, trainer::FindGpus()); });
  return child ? child->text : "nccl";  // if it crashed, the nccl backend reports the cause
}

Result<void> CheckBackend(const std::string& name, Collective collective, int ranks) {
  if (name == "mpi") return CheckMpi();
  if (collective == Collective::kReduce && name != "nccl") {
    return Error{ErrorKind::kInvalid, "the trainer does not implement reduce over " + name +
                                          "; use --backend=nccl, --backend=mpi or allreduce"};
  }
  if (!UnderAgent() && UnderMpirun()) {
    return Error{ErrorKind::kInvalid,
                 "--backend=" + name +
                     " starts its own ranks, or is started by a TrainingJob; under mpirun use "
                     "--backend=mpi"};
  }
  return name == "nccl" ? CheckNccl(ranks) : Result<void>();
}

Result<std::unique_ptr<Backend>> MakeBackend(const std::string& name, const trainer::World& world,
                                             std::size_t registered_bytes) {
  std::unique_ptr<trainer::Gpu> gpu;
  if (name == "nccl") {
    NameHost(world.rank);
    const Result<int> number = GpuOf(world.rank);
    if (!number.ok()) return number.error();
    Result<std::unique_ptr<trainer::Gpu>> opened = trainer::OpenGpu(*number);
    if (!opened.ok()) return opened.error();
    gpu = *std::move(opened);
  }
  auto backend = std::make_unique<CommunicatorBackend>(std::move(gpu));
  if (registered_bytes > 0) {
    if (Result<void> done = backend->Register(registered_bytes); !done.ok()) return done.error();
  }
  if (Result<void> connected = backend->Connect(name, world); !connected.ok()) {
    return connected.error();
  }
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace ringmaster::bench
