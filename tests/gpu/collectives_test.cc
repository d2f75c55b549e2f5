// Tests all collectives, types and operations over NCCL, in GPU memory and staged from host memory.
// Compares the results with the same reduction on the host.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tests/gpu/gpu_ranks.h"
#include "worker/trainer/comm/narrow_floats.h"
#include "worker/trainer/gpu/gpu.h"

namespace ringmaster::trainer {
namespace {

constexpr std::size_t kCount = 12'345;
constexpr std::chrono::seconds kCollectiveLimit{60};

Deadline CollectiveDeadline() { return std::chrono::steady_clock::now() + kCollectiveLimit; }

template <typename T>
void Put(std::vector<std::byte>& bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

// Returns small numbers, so that sums and products over a few ranks are exact in all types.
std::vector<std::byte> Values(int rank, std::size_t count, ElementType type) {
  std::vector<std::byte> bytes(count * SizeOf(type));
  for (std::size_t i = 0; i < count; ++i) {
    const int value = 1 + (rank + static_cast<int>(i)) % 3;
    switch (type) {
      case ElementType::kFloat16:
        Put(bytes, i, Float16Of(static_cast<float>(value)));
        break;
      case ElementType::kBFloat16:
        Put(bytes, i, BFloat16Of(static_cast<float>(value)));
        break;
      case ElementType::kFloat32:
        Put(bytes, i, static_cast<float>(value));
        break;
      case ElementType::kFloat64:
        Put(bytes, i, static_cast<double>(value));
        break;
      default:  // little-endian integers
        bytes[i * SizeOf(type)] = static_cast<std::byte>(value);
    }
  }
  return bytes;
}

std::vector<std::byte> Reduced(int ranks, std::size_t count, ElementType type, ReduceOp op) {
  std::vector<std::byte> all = Values(0, count, type);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<std::byte> more = Values(rank, count, type);
    ReduceFunctionFor(type, op)(all.data(), all.data(), more.data(), count);
  }
  return all;
}

// Returns a copy of the bytes in GPU memory, which is freed when the process ends.
std::byte* OnGpu(const std::vector<std::byte>& bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes.size()) != cudaSuccess) return nullptr;
  cudaMemcpy(memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
  return static_cast<std::byte*>(memory);
}

std::vector<std::byte> FromGpu(const std::byte* memory, std::size_t bytes) {
  std::vector<std::byte> copy(bytes);
  cudaMemcpy(copy.data(), memory, bytes, cudaMemcpyDeviceToHost);
  return copy;
}

struct Connected {
  explicit Connected(const World& world) {
    Result<std::unique_ptr<Gpu>> opened = OpenGpu(0);
    if (!opened.ok()) throw std::runtime_error(opened.error().message);
    gpu = *std::move(opened);
    Result<std::unique_ptr<Communicator>> made =
        gpu->communicators(abandoned_connects)(world, CollectiveDeadline());
    if (!made.ok()) throw std::runtime_error(made.error().message);
    communicator = *std::move(made);
  }

  AbandonedConnects abandoned_connects;
  std::unique_ptr<Gpu> gpu;
  std::unique_ptr<Communicator> communicator;
};

int Wrong(const char* what, const WorkHandle& work, const std::vector<std::byte>& is,
          const std::vector<std::byte>& should) {
  if (const Result<void> done = work->Wait(); !done.ok()) {
    std::fprintf(stderr, "%s: %s\n", what, done.error().message.c_str());
    return 1;
  }
  if (is == should) return 0;
  std::fprintf(stderr, "%s: wrong values\n", what);
  return 1;
}

int ReducesOnGpu(Communicator& communicator, ElementType type, ReduceOp op) {
  const int rank = communicator.rank();
  const int size = communicator.size();
  const std::string what = std::string(NameOf(type)) + " " + NameOf(op);
  const std::vector<std::byte> mine = Values(rank, kCount, type);
  std::byte* const memory = OnGpu(mine);
  const WorkHandle work =
      communicator.AllReduce(Elements(memory, kCount, type), op, CollectiveDeadline());
  int wrong = work->Wait().ok() ? 0 : 1;
  wrong += Wrong(("allreduce " + what).c_str(), work, FromGpu(memory, mine.size()),
                 Reduced(size, kCount, type, op));
  cudaFree(memory);

  const std::size_t all_count = kCount * static_cast<std::size_t>(size);
  std::byte* const all = OnGpu(Values(rank, all_count, type));
  std::byte* const piece = OnGpu(mine);
  const WorkHandle scattered = communicator.ReduceScatter(
      Elements(all, all_count, type), Elements(piece, kCount, type), op, CollectiveDeadline());
  wrong += scattered->Wait().ok() ? 0 : 1;
  const std::vector<std::byte> whole = Reduced(size, all_count, type, op);
  const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(mine.size()) * rank;
  wrong += Wrong(("reduce-scatter " + what).c_str(), scattered, FromGpu(piece, mine.size()),
                 {begin, begin + static_cast<std::ptrdiff_t>(mine.size())});
  cudaFree(all);
  cudaFree(piece);
  return wrong;
}

TEST(GpuCollectives, ReduceEveryTypeWithEveryOperation) {
  RunGpuRanks(2, [](const World& world) {
    const Connected connected(world);
    int wrong = 0;
    for (const ElementType type : kElementTypes) {
      for (const ReduceOp op : kReduceOps) {
        wrong += ReducesOnGpu(*connected.communicator, type, op);
      }
    }
    return wrong;
  });
}

TEST(GpuCollectives, WorkOnTheHostsMemoryToo) {
  RunGpuRanks(3, [](const World& world) {
    const Connected connected(world);
    Communicator& communicator = *connected.communicator;
    const auto bytes = static_cast<std::size_t>(1000);
    const auto rank = static_cast<std::size_t>(world.rank);
    const auto of = [](std::size_t each) { return static_cast<std::byte>(each + 1); };

    const std::vector<std::byte> mine(bytes, of(rank));
    std::vector<std::byte> all(3 * bytes);
    WorkHandle work = communicator.AllGather(mine, all, CollectiveDeadline());
    int wrong = work->Wait().ok() ? 0 : 1;
    for (std::size_t i = 0; i < all.size(); ++i) wrong += all[i] == of(i / bytes) ? 0 : 1;

    std::vector<std::byte> sent(bytes, of(rank));
    work = communicator.Broadcast(sent, 1, CollectiveDeadline());
    wrong += Wrong("broadcast", work, sent, std::vector<std::byte>(bytes, of(1)));

    // Rank r sends r + 1 bytes to each rank.
    const std::vector<std::byte> out(3 * (rank + 1), of(rank));
    std::vector<std::byte> in(1 + 2 + 3);
    work = communicator.AllToAll(out, {rank + 1, rank + 1, rank + 1}, in, {1, 2, 3},
                                 CollectiveDeadline());
    wrong += Wrong("all-to-all", work, in, {of(0), of(1), of(1), of(2), of(2), of(2)});
    return wrong + (communicator.Barrier(CollectiveDeadline())->Wait().ok() ? 0 : 1);
  });
}

TEST(GpuCollectives, AbortEndsWhatWaitsForASilentPeer) {
  RunGpuRanks(2, [](const World& world) {
    Connected connected(world);
    Communicator& communicator = *connected.communicator;
    if (!communicator.Barrier(CollectiveDeadline())->Wait().ok()) return 1;
    if (world.rank == 1) return 0;  // leaves without notice

    std::byte* const memory = OnGpu(std::vector<std::byte>(1 << 20));
    const WorkHandle work =
        communicator.AllReduce(Elements(memory, 1 << 18, ElementType::kFloat32), ReduceOp::kSum,
                               std::chrono::steady_clock::now() + std::chrono::seconds(2));
    const auto begin = std::chrono::steady_clock::now();
    const bool failed = !work->Wait().ok();
    communicator.Abort("the world is over");
    connected.communicator.reset();
    const auto took = std::chrono::steady_clock::now() - begin;
    std::printf("abort after a peer's end: %lld ms\n",
                static_cast<long long>(
                    std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
    return failed && cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
  });
}

}  // namespace
}  // namespace ringmaster::trainer
