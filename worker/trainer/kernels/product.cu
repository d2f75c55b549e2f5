#include <cuda_runtime.h>

#include "worker/trainer/kernels/launch.h"
#include "worker/trainer/kernels/product.h"

namespace ringmaster::trainer::partial_fc {
namespace {

// A block computes kSide × kSide elements, each thread 8 × 8 of them: four groups of 4 × 4 that
// are half a side apart, so that adjacent threads read adjacent memory.
constexpr int kSide = 128;
constexpr int kDepth = 8;  // elements of the inner dimension that are loaded at a time
constexpr int kGroup = 4;
constexpr int kThreadsAcross = kSide / (2 * kGroup);
constexpr int kThreads = kThreadsAcross * kThreadsAcross;
constexpr int kFetches = kSide * kDepth / kThreads;  // elements of each side that a thread loads
constexpr int kLeftStep = kSide + 4;                 // prevents bank conflicts
constexpr unsigned kSumThreads = 256;
constexpr int64_t kMostSumBlocks = 4096;

struct Place {
  int at;     // position along the tile's side
  int depth;  // position along the inner dimension
};

// Returns the element that the thread loads in its `i`-th fetch. Adjacent threads load adjacent
// elements.
__device__ Place AlongSide(int i) {
  const int number = static_cast<int>(threadIdx.x) + i * kThreads;
  return {number % kSide, number / kSide};
}
__device__ Place AlongDepth(int i) {
  const int number = static_cast<int>(threadIdx.x) + i * kThreads;
  return {number / kDepth, number % kDepth};
}

__device__ Place LeftPlace(const Product& product, int i) {
  return product.left.column_step == 1 ? AlongDepth(i) : AlongSide(i);
}

// Returns an element, or 0 outside the matrix, which does not change a sum.
__device__ float LeftAt(const Product& product, int64_t row, int64_t k, int64_t end) {
  if (row >= product.rows || k >= end) return 0;
  return product.left.data[row * product.left.row_step + k * product.left.column_step];
}
__device__ float RightAt(const Product& product, int64_t k, int64_t column, int64_t end) {
  if (column >= product.columns || k >= end) return 0;
  return product.right[k * product.right_step + column];
}

// Returns the index in the tile of the `i`-th (of 8) row or column of the thread.
__device__ int Spread(int thread, int i) {
  return (i / kGroup) * (kSide / 2) + thread * kGroup + i % kGroup;
}

// Block (x, y, z) computes the tile in column x and row y over part z of the inner dimension.
__global__ void __launch_bounds__(kThreads)
    MultiplyTile(Product product, int64_t part_depth, float* parts) {
  __shared__ float left[kDepth][kLeftStep];
  __shared__ float right[kDepth][kSide];
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kSide;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kSide;
  const int64_t begin = static_cast<int64_t>(blockIdx.z) * part_depth;
  const int64_t end = begin + part_depth < product.inner ? begin + part_depth : product.inner;
  const int across = static_cast<int>(threadIdx.x) % kThreadsAcross;
  const int down = static_cast<int>(threadIdx.x) / kThreadsAcross;

  float next_left[kFetches];
  float next_right[kFetches];
  const auto fetch = [&](int64_t k) {
    for (int i = 0; i < kFetches; ++i) {
      const Place of_left = LeftPlace(product, i);
      const Place of_right = AlongSide(i);
      next_left[i] = LeftAt(product, first_row + of_left.at, k + of_left.depth, end);
      next_right[i] = RightAt(product, k + of_right.depth, first_column + of_right.at, end);
    }
  };

  float sums[2 * kGroup][2 * kGroup] = {};
  fetch(begin);
  for (int64_t k = begin; k < end; k += kDepth) {
    for (int i = 0; i < kFetches; ++i) {
      const Place of_left = LeftPlace(product, i);
      const Place of_right = AlongSide(i);
      left[of_left.depth][of_left.at] = next_left[i];
      right[of_right.depth][of_right.at] = next_right[i];
    }
    __syncthreads();
    fetch(k + kDepth);  // loads the next tile while this one is multiplied
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      float of_rows[2 * kGroup];
      float of_columns[2 * kGroup];
#pragma unroll
      for (int i = 0; i < 2 * kGroup; ++i) {
        of_rows[i] = left[depth][Spread(down, i)];
        of_columns[i] = right[depth][Spread(across, i)];
      }
#pragma unroll
      for (int i = 0; i < 2 * kGroup; ++i) {
#pragma unroll
        for (int j = 0; j < 2 * kGroup; ++j) {
          sums[i][j] = fmaf(of_rows[i], of_columns[j], sums[i][j]);
        }
      }
    }
    __syncthreads();
  }

  const bool in_parts = parts != nullptr;
  float* const out = in_parts
                         ? parts + static_cast<int64_t>(blockIdx.z) * product.rows * product.columns
                         : product.out;
  const int64_t out_step = in_parts ? product.columns : product.out_step;
#pragma unroll
  for (int i = 0; i < 2 * kGroup; ++i) {
    const int64_t row = first_row + Spread(down, i);
#pragma unroll
    for (int j = 0; j < 2 * kGroup; ++j) {
      const int64_t column = first_column + Spread(across, j);
      if (row >= product.rows || column >= product.columns) continue;
      float& element = out[row * out_step + column];
      element = product.add && !in_parts ? element + sums[i][j] : sums[i][j];
    }
  }
}

__global__ void SumParts(Product product, int parts, const float* memory) {
  const int64_t count = product.rows * product.columns;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    float sum = 0;
    for (int part = 0; part < parts; ++part) sum += memory[part * count + i];
    float& element = product.out[i / product.columns * product.out_step + i % product.columns];
    element = product.add ? element + sum : sum;
  }
}

unsigned Tiles(int64_t size) { return static_cast<unsigned>((size + kSide - 1) / kSide); }

}  // namespace

int LaunchProduct(const Product& product, void* stream) {
  if (product.rows == 0 || product.columns == 0) return 0;
  return Launch(MultiplyTile, dim3(Tiles(product.columns), Tiles(product.rows), 1), kThreads,
                stream, product, product.inner, static_cast<float*>(nullptr));
}

int LaunchProductInParts(const Product& product, int parts, float* memory, void* stream) {
  if (product.rows == 0 || product.columns == 0) return 0;
  // A part's depth is a multiple of kDepth, so that no tile is split.
  const int64_t depths = (product.inner + kDepth - 1) / kDepth;
  const int64_t part_depth = (depths + parts - 1) / parts * kDepth;
  const int error = Launch(
      MultiplyTile, dim3(Tiles(product.columns), Tiles(product.rows), static_cast<unsigned>(parts)),
      kThreads, stream, product, part_depth, memory);
  if (error != 0) return error;
  const int64_t wanted = (product.rows * product.columns + kSumThreads - 1) / kSumThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMostSumBlocks ? wanted : kMostSumBlocks);
  return Launch(SumParts, dim3(blocks), kSumThreads, stream, product, parts,
                static_cast<const float*>(memory));
}

}  // namespace ringmaster::trainer::partial_fc
