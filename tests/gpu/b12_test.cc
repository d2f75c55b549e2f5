// Measures figure B12 over NCCL: compares an allreduce through the trainer's communicator with a
// loop of NCCL's calls, for the same ranks, sizes and memory, in alternating rounds. Two ranks on
// one GPU communicate over sockets, so only the ratio of the bandwidths is meaningful.

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tests/gpu/gpu_ranks.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "worker/bench/harness/figure.h"
#include "worker/trainer/comm/file_store.h"
#include "worker/trainer/comm/nccl/nccl_forming.h"
#include "worker/trainer/gpu/cuda_device.h"
#include "worker/trainer/gpu/gpu.h"

namespace ringmaster::trainer {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kSmallest = 1 << 20;
constexpr std::size_t kLargest = 256 << 20;
constexpr int kRounds = 5;
constexpr int kLoops = 5;
constexpr double kGoal = 0.95;

Deadline BenchDeadline() { return steady_clock::now() + std::chrono::seconds(60); }

double SecondsSince(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

// Calls NCCL directly, on the caller's thread.
class Bare {
 public:
  explicit Bare(const World& world, NcclRuntime& runtime) : nccl_(runtime.nccl()) {
    const NcclPatience patience{
        .deadline = BenchDeadline(), .given_up = [] { return false; }, .pause = [] {}};
    const Result<NcclComm> formed =
        FormCommunicator(runtime, world, patience,
                         {.missing = [](int) {}, .comes_to = [](control::ConnectStage) {}});
    if (formed.ok()) comm_ = *formed;
    if (cudaStreamCreate(&stream_) != cudaSuccess) comm_ = nullptr;
  }
  ~Bare() {
    if (comm_ != nullptr) nccl_.comm_abort(comm_);
  }

  bool connected() const { return comm_ != nullptr; }

  double Seconds(void* memory, std::size_t bytes) {
    const auto begin = steady_clock::now();
    for (int i = 0; i < kLoops; ++i) {
      NcclResult state = nccl_.all_reduce(memory, memory, bytes / sizeof(float), NcclType::kFloat32,
                                          NcclOp::kSum, comm_, stream_);
      while (state == NcclResult::kInProgress) nccl_.comm_async_error(comm_, &state);
    }
    cudaStreamSynchronize(stream_);
    return SecondsSince(begin);
  }

 private:
  const NcclApi& nccl_;
  NcclComm comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

double SecondsOfOurs(Communicator& communicator, std::byte* memory, std::size_t bytes) {
  const auto begin = steady_clock::now();
  std::vector<WorkHandle> works;
  for (int i = 0; i < kLoops; ++i) {
    works.push_back(
        communicator.AllReduce(Elements(memory, bytes / sizeof(float), ElementType::kFloat32),
                               ReduceOp::kSum, BenchDeadline()));
  }
  bool done = true;
  for (const WorkHandle& work : works) done = work->Wait().ok() && done;
  return done ? SecondsSince(begin) : -1;
}

// Waits until all ranks are done, because an exit breaks operations that other ranks wait for.
bool AwaitOthers(const World& world) {
  std::vector<std::string> all;
  for (int rank = 0; rank < world.size; ++rank) all.push_back("done/" + std::to_string(rank));
  return world.store->Set(all[static_cast<std::size_t>(world.rank)], "").ok() &&
         world.store->Get(all, BenchDeadline()).ok();
}

// Returns 0 if the ratio reaches the goal for every size.
int Compare(const World& world, const std::string& bare_folder) {
  Result<NcclApi> nccl = LoadNccl();
  auto bare_store = FileStore::Open(bare_folder);
  if (!nccl.ok() || !bare_store.ok()) return 1;
  std::unique_ptr<DeviceApi> device = MakeCudaDevice(0);
  if (!device->Use().ok()) return 1;
  NcclRuntime runtime(*std::move(nccl), std::move(device), {});
  World bare_world = world;
  bare_world.store = *std::move(bare_store);
  Bare bare(bare_world, runtime);
  AbandonedConnects abandoned_connects;
  const auto gpu = OpenGpu(0);
  if (!bare.connected() || !gpu.ok()) return 1;
  const auto ours = (*gpu)->communicators(abandoned_connects)(world, BenchDeadline());
  void* memory = nullptr;
  if (!ours.ok() || cudaMalloc(&memory, kLargest) != cudaSuccess) return 1;
  cudaMemset(memory, 0, kLargest);

  int below = 0;
  for (std::size_t bytes = kSmallest; bytes <= kLargest; bytes *= 4) {
    std::vector<double> ratios;
    double seconds = 0;
    for (int round = -1; round < kRounds; ++round) {  // the first round is a warm-up
      const double alone = bare.Seconds(memory, bytes);
      seconds = SecondsOfOurs(**ours, static_cast<std::byte*>(memory), bytes);
      if (seconds < 0) return 1;
      if (round >= 0) ratios.push_back(alone / seconds);
    }
    const double ratio = bench::Median(ratios);
    if (world.rank == 0) {
      std::printf(
          "{\"figure\":\"B12\",\"backend\":\"nccl\",\"bytes\":%zu,\"busbw_gb_s\":%.2f,"
          "\"of_bare\":%.3f}\n",
          bytes, static_cast<double>(bytes) * kLoops / seconds / 1e9, ratio);
    }
    if (ratio < kGoal) ++below;
  }
  return AwaitOthers(world) ? below : 1;
}

// Measures how much longer the reduction of a step takes with a confirmation. The time is spent in
// the device, the host's memory and the engine, but not in the network: there is only one rank,
// because ranks that share a GPU take turns of milliseconds.
int MeasureConfirmation(const World& world) {
  constexpr std::size_t kBucket = 4 << 20;
  constexpr double kStepMicros = 3000;
  AbandonedConnects abandoned_connects;
  const auto gpu = OpenGpu(0);
  if (!gpu.ok()) return 1;
  const auto made = (*gpu)->communicators(abandoned_connects)(world, BenchDeadline());
  void* memory = nullptr;
  if (!made.ok() || cudaMalloc(&memory, kBucket) != cudaSuccess) return 1;
  cudaMemset(memory, 0, kBucket);
  Communicator& communicator = **made;
  bool right = true;
  const auto reduce = [&](bool confirm) {
    const auto begin = steady_clock::now();
    const WorkHandle reduced = communicator.AllReduce(
        Elements(static_cast<std::byte*>(memory), kBucket / sizeof(float), ElementType::kFloat32),
        ReduceOp::kSum, BenchDeadline());
    const WorkHandle confirmed = confirm ? communicator.Confirm(BenchDeadline()) : nullptr;
    right = reduced->Wait().ok() && (!confirm || confirmed->Wait().ok()) && right;
    return SecondsSince(begin) * 1e6;
  };
  std::vector<double> with;
  std::vector<double> without;
  for (int step = -20; step < 300; ++step) {
    const double bare = reduce(false);
    const double confirmed = reduce(true);
    if (step < 0) continue;
    without.push_back(bare);
    with.push_back(confirmed);
  }
  const double micros = bench::Median(with) - bench::Median(without);
  if (world.rank == 0) {
    std::printf("confirmation: %.0f us, %.2f %% of a step of 3 ms\n", micros,
                100 * micros / kStepMicros);
  }
  return right && AwaitOthers(world) ? 0 : 1;
}

TEST(GpuB12, AllReduceReachesABareLoop) {
  const TemporaryFolder bare;
  RunGpuRanks(2, [&](const World& world) { return Compare(world, bare.path()); });
}

TEST(GpuConfirmation, IsRightAndSaysWhatItTakes) { RunGpuRanks(1, MeasureConfirmation); }

}  // namespace
}  // namespace ringmaster::trainer
