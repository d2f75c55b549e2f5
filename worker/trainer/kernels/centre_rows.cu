#include <cuda_runtime.h>

#include "worker/trainer/kernels/centre_rows.h"
#include "worker/trainer/kernels/launch.h"
#include "worker/trainer/partial_fc/class_draws.h"
#include "worker/trainer/partial_fc/initial_centre.h"
#include "worker/trainer/partial_fc/row_checksum.h"
#include "worker/trainer/partial_fc/vector_elements.h"

namespace ringmaster::trainer::partial_fc {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kWarp = 32;
constexpr int64_t kMostBlocks = 8192;  // maximum number of blocks; threads loop over more data
constexpr unsigned kWholeWarp = 0xffffffffU;

__device__ int64_t FirstOfThread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ int64_t AllThreads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }
__device__ int LaneOfThread() { return static_cast<int>(threadIdx.x) % kWarp; }

unsigned BlocksFor(int64_t threads) {
  const int64_t wanted = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
}

// Returns the sum over the warp, which has the same bits in all lanes.
__device__ float SumOfWarp(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  }
  return value;
}

__device__ float DotOfWarp(const float* a, const float* b, int64_t size) {
  float sum = 0;
  for (int64_t k = LaneOfThread(); k < size; k += kWarp) sum = fmaf(a[k], b[k], sum);
  return SumOfWarp(sum);
}

__global__ void FillValues(float* values, float value, int64_t count) {
  for (int64_t i = FirstOfThread(); i < count; i += AllThreads()) values[i] = value;
}

// A thread computes four numbers of a centre and sets four of its momentum to zero.
__global__ void MakeInitialRows(uint64_t seed, int64_t first, int64_t dimension, float* rows,
                                int64_t count) {
  const int64_t fours = (dimension + kCentreFour - 1) / kCentreFour;
  for (int64_t i = FirstOfThread(); i < count * fours; i += AllThreads()) {
    float* const centre = rows + i / fours * 2 * dimension;
    const int64_t from = i % fours * kCentreFour;
    InitialFour(seed, first + i / fours, from, dimension, centre);
    for (int64_t k = from; k < from + kCentreFour && k < dimension; ++k) centre[dimension + k] = 0;
  }
}

__global__ void DrawClasses(uint64_t seed, int64_t step, float rate, int64_t first, bool* drawn,
                            int64_t count) {
  const int64_t first_four = first / 4;
  const int64_t fours = (first + count + 3) / 4 - first_four;
  for (int64_t i = FirstOfThread(); i < fours; i += AllThreads()) {
    const PhiloxBlock draws = DrawsOfFour(seed, step, first_four + i);
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t at = (first_four + i) * 4 + k - first;
      if (at >= 0 && at < count) drawn[at] = UnitFloat(draws.words[k]) < rate;
    }
  }
}

// In the kernels below, each warp processes a row.
__global__ void MakeUnits(Vectors vectors, float* units, float* inverse_norms, int64_t count) {
  for (int64_t row = FirstOfThread() / kWarp; row < count; row += AllThreads() / kWarp) {
    const int64_t place = vectors.index != nullptr ? vectors.index[row] : row;
    const float* const vector = vectors.data + place * vectors.step;
    const float inverse = InverseNorm(DotOfWarp(vector, vector, vectors.size));
    for (int64_t k = LaneOfThread(); k < vectors.size; k += kWarp) {
      units[row * vectors.size + k] = vector[k] * inverse;
    }
    if (LaneOfThread() == 0) inverse_norms[row] = inverse;
  }
}

__global__ void GoThroughNormalisation(const float* __restrict__ units,
                                       const float* __restrict__ inverse_norms,
                                       const float* unit_gradients, int64_t size, float* gradients,
                                       int64_t count) {
  for (int64_t row = FirstOfThread() / kWarp; row < count; row += AllThreads() / kWarp) {
    const float* const unit = units + row * size;
    const float* const from = unit_gradients + row * size;
    const float along = DotOfWarp(unit, from, size);
    for (int64_t k = LaneOfThread(); k < size; k += kWarp) {
      gradients[row * size + k] = Across(from[k], along, unit[k], inverse_norms[row]);
    }
  }
}

__global__ void DescendRows(Descent descent, float* __restrict__ rows, int64_t count) {
  const int64_t size = descent.dimension;
  for (int64_t row = FirstOfThread() / kWarp; row < count; row += AllThreads() / kWarp) {
    const float* const unit = descent.units + row * size;
    const float* const from = descent.unit_gradients + row * size;
    float* const centre = rows + descent.index[row] * 2 * size;
    const float along = DotOfWarp(unit, from, size);
    for (int64_t k = LaneOfThread(); k < size; k += kWarp) {
      const float gradient = Across(from[k], along, unit[k], descent.inverse_norms[row]);
      DescendElement(gradient, descent.gradient_scale, descent.rates, centre[k], centre[size + k]);
    }
  }
}

__global__ void CoastRows(const int64_t* __restrict__ index, int64_t size, DescentRates rates,
                          float* __restrict__ rows, int64_t count) {
  for (int64_t row = FirstOfThread() / kWarp; row < count; row += AllThreads() / kWarp) {
    float* const centre = rows + index[row] * 2 * size;
    for (int64_t k = LaneOfThread(); k < size; k += kWarp) {
      DescendElement(0, 1, rates, centre[k], centre[size + k]);
    }
  }
}

__global__ void SumRowChecksums(int64_t first, int64_t row_floats, const float* __restrict__ rows,
                                const int64_t* __restrict__ index, unsigned long long* sum,
                                int64_t count) {
  uint64_t own = 0;
  for (int64_t i = FirstOfThread(); i < count; i += AllThreads()) {
    const int64_t row = index != nullptr ? index[i] : i;
    own += RowChecksum(first + row, rows + row * row_floats, row_floats);
  }
  if (own != 0) atomicAdd(sum, static_cast<unsigned long long>(own));
}

}  // namespace

int LaunchCopy(const float* from, float* to, std::size_t count, void* stream) {
  if (count == 0) return 0;
  return static_cast<int>(cudaMemcpyAsync(to, from, count * sizeof(float), cudaMemcpyDefault,
                                          static_cast<cudaStream_t>(stream)));
}

int CopyAndWait(const float* from, float* to, std::size_t count, void* stream) {
  const int error = LaunchCopy(from, to, count, stream);
  if (error != 0 || count == 0) return error;
  return static_cast<int>(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

const char* LaunchErrorText(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

int LaunchFill(float* values, float value, int64_t count, void* stream) {
  if (count == 0) return 0;
  return Launch(FillValues, dim3(BlocksFor(count)), kThreads, stream, values, value, count);
}

int LaunchInitialRows(uint64_t seed, int64_t first, int64_t dimension, float* rows, int64_t count,
                      void* stream) {
  if (count == 0) return 0;
  const int64_t fours = count * ((dimension + kCentreFour - 1) / kCentreFour);
  return Launch(MakeInitialRows, dim3(BlocksFor(fours)), kThreads, stream, seed, first, dimension,
                rows, count);
}

int LaunchDrawClasses(uint64_t seed, int64_t step, float rate, int64_t first, bool* drawn,
                      int64_t count, void* stream) {
  if (count == 0) return 0;
  return Launch(DrawClasses, dim3(BlocksFor(count / 4 + 2)), kThreads, stream, seed, step, rate,
                first, drawn, count);
}

int LaunchToUnits(const Vectors& vectors, float* units, float* inverse_norms, int64_t count,
                  void* stream) {
  if (count == 0) return 0;
  return Launch(MakeUnits, dim3(BlocksFor(count * kWarp)), kThreads, stream, vectors, units,
                inverse_norms, count);
}

int LaunchThroughNormalisation(const float* units, const float* inverse_norms,
                               const float* unit_gradients, int64_t size, float* gradients,
                               int64_t count, void* stream) {
  if (count == 0) return 0;
  return Launch(GoThroughNormalisation, dim3(BlocksFor(count * kWarp)), kThreads, stream, units,
                inverse_norms, unit_gradients, size, gradients, count);
}

int LaunchDescent(const Descent& descent, float* rows, int64_t count, void* stream) {
  if (count == 0) return 0;
  return Launch(DescendRows, dim3(BlocksFor(count * kWarp)), kThreads, stream, descent, rows,
                count);
}

int LaunchCoast(const int64_t* index, int64_t dimension, const DescentRates& rates, float* rows,
                int64_t count, void* stream) {
  if (count == 0) return 0;
  return Launch(CoastRows, dim3(BlocksFor(count * kWarp)), kThreads, stream, index, dimension,
                rates, rows, count);
}

int LaunchRowChecksums(int64_t first, int64_t row_floats, const float* rows, const int64_t* index,
                       uint64_t* sum, int64_t count, void* stream) {
  if (count == 0) return 0;
  return Launch(SumRowChecksums, dim3(BlocksFor(count)), kThreads, stream, first, row_floats, rows,
                index, reinterpret_cast<unsigned long long*>(sum), count);
}

}  // namespace ringmaster::trainer::partial_fc
