#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <vector>

#include "tests/unit/trainer/cuda_on_host/cuda_runtime.h"
#include "tests/unit/trainer/cuda_on_host/fiber.h"

namespace ringmaster::trainer {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kMostThreads = 1024;
constexpr unsigned kMostBlocksDown = 65'535;
constexpr auto kOrdersNothing = std::memory_order_relaxed;

struct Barrier {
  std::atomic<unsigned> arrived = 0;
  std::atomic<unsigned> round = 0;
};

struct Warp {
  Barrier barrier;
  // Used alternately: a slow thread may still read one array while another thread fills the other.
  std::array<std::array<uint64_t, kLanes>, 2> values{};
};

// Runs blocks of `threads` threads one after another. The threads of a block and the launching
// thread, which is last, take turns: each runs until it has to wait. Only barriers synchronize the
// threads' memory accesses.
class Multiprocessor {
 public:
  explicit Multiprocessor(unsigned threads) : threads_(threads), warps_(threads / kLanes) {
    while (fibers_.size() < threads) fibers_.push_back(std::make_unique<Fiber>(&RunThread));
    fibers_.push_back(std::make_unique<Fiber>());
  }

  void Run(dim3 blocks, const std::function<void()>& body) {
    fibers_.back()->BeCaller();
    body_ = &body;
    blockDim = dim3(threads_);
    gridDim = blocks;
    threadIdx.x.store(threads_, kOrdersNothing);
    running = this;
    std::vector<unsigned> order(static_cast<std::size_t>(blocks.x) * blocks.y * blocks.z);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::shuffle(order, random_);
    for (const unsigned block : order) {
      blockIdx = dim3(block % blocks.x, block / blocks.x % blocks.y, block / blocks.x / blocks.y);
      upwards_ = !upwards_;
      Await(whole_block_, threads_ + 1);  // waits for the start of the block
      Await(whole_block_, threads_ + 1);  // waits for the end of the block
    }
  }

  void Sync() { Await(threads_of_block_, threads_); }

  const uint64_t* Exchange(uint64_t mine) {
    Warp& warp = warps_[threadIdx.x / kLanes];
    auto& values = warp.values[warp.barrier.round % 2];
    values[threadIdx.x % kLanes] = mine;
    Await(warp.barrier, kLanes);
    return values.data();
  }

  static inline std::atomic<Multiprocessor*> running = nullptr;

 private:
  static void RunThread() {
    Multiprocessor& self = *running;
    self.fibers_[threadIdx.x]->ComeFrom(*self.left_.load(kOrdersNothing));
    for (;;) {
      self.Await(self.whole_block_, self.threads_ + 1);
      (*self.body_)();
      self.Await(self.whole_block_, self.threads_ + 1);
    }
  }

  // Waits until `of` threads have arrived. Ends the process if all threads wait.
  void Await(Barrier& barrier, unsigned of) {
    const unsigned round = barrier.round;
    if (++barrier.arrived == of) {
      barrier.arrived = 0;
      ++barrier.round;
      turns_.store(0, kOrdersNothing);
    }
    while (barrier.round == round) {
      // Allows two rounds, because the direction may have changed during the first.
      if (turns_.fetch_add(1, kOrdersNothing) > 2 * fibers_.size()) EndTheProcess();
      LetTheNextGoOn();
    }
  }

  void LetTheNextGoOn() {
    const std::size_t all = fibers_.size();
    const unsigned here = threadIdx.x;
    const std::size_t next = (here + (upwards_ ? 1 : all - 1)) % all;
    threadIdx.x.store(static_cast<unsigned>(next), kOrdersNothing);
    left_.store(fibers_[here].get(), kOrdersNothing);
    fibers_[here]->LeaveFor(*fibers_[next]);
    fibers_[here]->ComeFrom(*left_.load(kOrdersNothing));
  }

  [[noreturn]] static void EndTheProcess() {
    std::fprintf(stderr,
                 "cuda_on_host: threads of a block part: some wait at a __syncthreads() or for "
                 "their warp, where the others never come\n");
    std::abort();
  }

  const unsigned threads_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::mt19937 random_{1};

  Barrier whole_block_;  // the launching thread also waits at this barrier
  Barrier threads_of_block_;
  std::vector<Warp> warps_;
  std::atomic<bool> upwards_ = false;
  std::atomic<std::size_t> turns_ = 0;  // turns since a barrier was last completed
  std::atomic<Fiber*> left_ = nullptr;  // the fiber that ran before the current one

  const std::function<void()>* body_ = nullptr;
};

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
  static std::mutex one_at_a_time;
  static auto& by_threads = *new std::map<unsigned, Multiprocessor>;  // never destroyed
  const std::lock_guard lock(one_at_a_time);
  by_threads.try_emplace(threads, threads).first->second.Run(blocks, thread);
  return cudaSuccess;
}

const uint64_t* ExchangeInWarp(uint64_t mine) {
  return Multiprocessor::running.load()->Exchange(mine);
}
void SyncBlock() { Multiprocessor::running.load()->Sync(); }

}  // namespace ringmaster::trainer
