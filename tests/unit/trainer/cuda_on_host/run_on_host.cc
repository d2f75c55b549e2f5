#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/trainer/cuda_on_host/cuda_runtime.h"

namespace ringmaster::trainer {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kMostThreads = 1024;
constexpr unsigned kMostBlocksDown = 65'535;

enum class Reason { kSync, kWarp, kEnd };
struct Barrier {
  unsigned arrived = 0;
  Reason reason = Reason::kSync;
  std::atomic<int> round = 0;  // what threads wait for, outside of all locks
};

struct Warp {
  Barrier barrier;
  // Filled in turns: whoever is late still reads one while another begins the next.
  std::array<std::array<uint64_t, kLanes>, 2> values{};
};

// The one multiprocessor there is: its threads stay from launch to launch.
class Machine {
 public:
  ~Machine() {
    ending_ = true;
    ++launch_;
    launch_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void Run(dim3 blocks, unsigned threads, const std::function<void()>& body) {
    const std::lock_guard one_at_a_time(launches_);
    blocks_ = blocks;
    size_ = threads;
    body_ = &body;
    order_.resize(static_cast<std::size_t>(blocks.x) * blocks.y * blocks.z);
    std::iota(order_.begin(), order_.end(), 0U);
    std::ranges::shuffle(order_, random_);
    while (threads_.size() < threads) {
      threads_.emplace_back([this, number = static_cast<unsigned>(threads_.size()),
                             served = launch_.load()] { Serve(number, served); });
    }
    running_ = static_cast<int>(threads_.size());
    ++launch_;
    launch_.notify_all();
    for (int left = running_; left > 0; left = running_) running_.wait(left);
  }

  void Sync() { Await(block_, size_, Reason::kSync); }

  const uint64_t* Exchange(uint64_t mine) {
    Warp& warp = warps_[threadIdx.x / kLanes];
    thread_local uint64_t turn = 0;
    auto& values = warp.values[++turn % 2];
    values[threadIdx.x % kLanes] = mine;
    Await(warp.barrier, kLanes, Reason::kWarp);
    return values.data();
  }

 private:
  void Serve(unsigned number, int served) {
    for (;;) {
      launch_.wait(served);
      served = launch_;
      if (ending_) return;
      if (number < size_) RunBlocks(number);
      if (--running_ == 0) running_.notify_all();
    }
  }

  void RunBlocks(unsigned number) {
    threadIdx = dim3(number);
    blockDim = dim3(size_);
    gridDim = blocks_;
    for (const unsigned block : order_) {
      blockIdx =
          dim3(block % blocks_.x, block / blocks_.x % blocks_.y, block / blocks_.x / blocks_.y);
      (*body_)();
      Await(block_, size_, Reason::kEnd);
    }
  }

  // A thread waits until as many as `of` have come. When all wait for others, nobody comes.
  void Await(Barrier& barrier, unsigned of, Reason reason) {
    int round = 0;
    {
      const std::lock_guard lock(mutex_);
      round = barrier.round;
      if (barrier.arrived > 0 && barrier.reason != reason) EndTheProcess();
      barrier.reason = reason;
      if (++barrier.arrived < of && ++waiting_ == size_) EndTheProcess();
      if (barrier.arrived == of) {
        waiting_ -= of - 1;
        barrier.arrived = 0;
        ++barrier.round;
      }
    }
    if (barrier.round != round) return barrier.round.notify_all();
    barrier.round.wait(round);
  }

  [[noreturn]] static void EndTheProcess() {
    std::fprintf(stderr,
                 "cuda_on_host: threads of a block part: some wait at a __syncthreads() or for "
                 "their warp, where the others never come\n");
    std::abort();
  }

  std::mutex launches_;
  std::vector<std::thread> threads_;
  std::mt19937 random_{1};
  std::atomic<int> launch_ = 0;   // counts up
  std::atomic<int> running_ = 0;  // threads that have not done with it
  std::atomic<bool> ending_ = false;

  std::mutex mutex_;  // guards `waiting_` and barriers' fields but for their rounds
  unsigned waiting_ = 0;
  Barrier block_;
  std::array<Warp, kMostThreads / kLanes> warps_;

  // Of the launch under way.
  dim3 blocks_;
  unsigned size_ = 0;
  const std::function<void()>* body_ = nullptr;
  std::vector<unsigned> order_;
};

Machine& TheMachine() {
  static Machine machine;
  return machine;
}

std::atomic<unsigned> most_blocks_across = std::numeric_limits<unsigned>::max();
std::atomic<unsigned> most_blocks_down = kMostBlocksDown;

}  // namespace

FewBlocks::FewBlocks(unsigned most) { most_blocks_across = most; }
FewBlocks::~FewBlocks() { most_blocks_across = std::numeric_limits<unsigned>::max(); }

FewBlocksDown::FewBlocksDown(unsigned most) { most_blocks_down = most; }
FewBlocksDown::~FewBlocksDown() { most_blocks_down = kMostBlocksDown; }

int RunOnHost(dim3 blocks, unsigned threads, const std::function<void()>& thread) {
  const bool possible = threads > 0 && threads <= kMostThreads && threads % kLanes == 0 &&
                        blocks.x > 0 && blocks.y > 0 && blocks.z > 0 &&
                        blocks.y <= most_blocks_down && blocks.z <= kMostBlocksDown;
  if (!possible) return cudaErrorInvalidConfiguration;
  blocks.x = std::min(blocks.x, most_blocks_across.load());
  TheMachine().Run(blocks, threads, thread);
  return cudaSuccess;
}

const uint64_t* ExchangeInWarp(uint64_t mine) { return TheMachine().Exchange(mine); }
void SyncBlock() { TheMachine().Sync(); }

}  // namespace ringmaster::trainer
