// Tests the replacement for a GPU: tests of kernels can find only the errors that it detects.

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/trainer/cuda_on_host/cuda_runtime.h"

namespace ringmaster::trainer {
namespace {

constexpr unsigned kBlock = 96;

TEST(RunOnHost, RunsEveryThreadOfEveryBlockOnce) {
  const dim3 grid(3, 2, 2);
  std::vector<int> runs(grid.x * grid.y * grid.z * kBlock);
  ASSERT_EQ(RunOnHost(grid, kBlock,
                      [&] {
                        const unsigned block =
                            (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
                        ++runs[block * blockDim.x + threadIdx.x];
                      }),
            cudaSuccess);
  EXPECT_EQ(runs, std::vector<int>(runs.size(), 1));
}

TEST(RunOnHost, ABlocksThreadsMeetAndSeeWhatTheOthersWrote) {
  static int shared[kBlock];
  std::vector<int> sums(2 * kBlock);
  ASSERT_EQ(RunOnHost(dim3(2), kBlock,
                      [&] {
                        for (int round = 0; round < 5; ++round) {
                          shared[threadIdx.x] = static_cast<int>(threadIdx.x) + round;
                          __syncthreads();
                          sums[blockIdx.x * kBlock + threadIdx.x] +=
                              shared[(threadIdx.x + 1) % kBlock];
                          __syncthreads();
                        }
                      }),
            cudaSuccess);
  for (unsigned i = 0; i < sums.size(); ++i) {
    EXPECT_EQ(sums[i], static_cast<int>(5 * ((i + 1) % kBlock)) + 10) << i;
  }
}

TEST(RunOnHost, AWarpExchangesValues) {
  std::vector<float> sums(kBlock);
  std::vector<unsigned> largest(kBlock);
  ASSERT_EQ(RunOnHost(dim3(1), kBlock,
                      [&] {
                        auto sum = static_cast<float>(threadIdx.x);
                        for (int lanes = 16; lanes > 0; lanes /= 2) {
                          sum += __shfl_xor_sync(~0U, sum, lanes);
                        }
                        sums[threadIdx.x] = sum;
                        largest[threadIdx.x] = __reduce_max_sync(~0U, threadIdx.x * 7 % 64);
                      }),
            cudaSuccess);
  for (unsigned i = 0; i < kBlock; ++i) {
    const unsigned first = i / 32 * 32;
    EXPECT_EQ(sums[i], static_cast<float>(32 * first + 31 * 16));
    unsigned expected = 0;
    for (unsigned lane = first; lane < first + 32; ++lane) {
      expected = std::max(expected, lane * 7 % 64);
    }
    EXPECT_EQ(largest[i], expected);
  }
}

// Without a barrier, a kernel would have wrong results in at least one of the two orders.
TEST(RunOnHost, ThreadsTakeTurnsTheOtherWayRoundInTheNextBlock) {
  std::atomic<int> turns = 0;
  std::array<std::array<int, kBlock>, 2> turn{};
  ASSERT_EQ(RunOnHost(dim3(2), kBlock, [&] { turn[blockIdx.x][threadIdx.x] = ++turns; }),
            cudaSuccess);
  EXPECT_NE(turn[0][10] < turn[0][80], turn[1][10] < turn[1][80]);
}

TEST(RunOnHost, BlocksRunInAnotherOrderEachTime) {
  std::set<std::vector<unsigned>> orders;
  for (int launch = 0; launch < 4; ++launch) {
    std::vector<unsigned> order;
    ASSERT_EQ(RunOnHost(dim3(50), 32,
                        [&] {
                          if (threadIdx.x == 0) order.push_back(blockIdx.x);
                        }),
              cudaSuccess);
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 4U);
}

TEST(RunOnHost, RunsFewerBlocksOnRequest) {
  std::atomic<unsigned> runs = 0;
  {
    const FewBlocks few(2);
    ASSERT_EQ(RunOnHost(dim3(5, 3), 32, [&] { runs += gridDim.x == 2 ? 1 : 1000; }), cudaSuccess);
  }
  EXPECT_EQ(runs, 2U * 3 * 32);
}

TEST(RunOnHost, RefusesWhatAGpuRefuses) {
  const auto nothing = [] {};
  EXPECT_NE(RunOnHost(dim3(1), 2048, nothing), cudaSuccess);
  EXPECT_NE(RunOnHost(dim3(0), 32, nothing), cudaSuccess);
  EXPECT_NE(RunOnHost(dim3(1, 70'000), 32, nothing), cudaSuccess);
}

TEST(RunOnHostDeathTest, ThreadsThatPartEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(RunOnHost(dim3(1), kBlock,
                         [] {
                           if (threadIdx.x < 5) return;
                           __syncthreads();
                         }),
               "threads of a block part");
  EXPECT_DEATH(RunOnHost(dim3(1), kBlock,
                         [] {
                           if (threadIdx.x % 2 == 0) __syncthreads();
                           static_cast<void>(__shfl_xor_sync(~0U, 1.0F, 1));
                         }),
               "threads of a block part");
}

}  // namespace
}  // namespace ringmaster::trainer
