#include <cuda_runtime.h>

#include "worker/trainer/kernels/launch.h"
#include "worker/trainer/kernels/margin_softmax.h"
#include "worker/trainer/partial_fc/exponential.h"

namespace ringmaster::trainer::partial_fc {
namespace {

constexpr unsigned kThreads = 128;  // threads of a block, one for each sample
constexpr int64_t kStrip = 256;     // number of rows that a block processes

int64_t Strips(int64_t rows) { return (rows + kStrip - 1) / kStrip; }

unsigned BlocksOf(int64_t samples) {
  return static_cast<unsigned>((samples + kThreads - 1) / kThreads);
}

// Strips are blocks in x, because there may be more strips than a grid can have blocks in y.
dim3 Grid(const MarginTile& tile) {
  return dim3(static_cast<unsigned>(Strips(tile.rows)), BlocksOf(tile.samples), 1);
}

__device__ int64_t SampleOfThread(unsigned block) {
  return static_cast<int64_t>(block) * blockDim.x + threadIdx.x;
}

struct RunningSums {
  float maximum = kNoMaximum;
  float sum = 0;

  // If a logit is NaN, the sum becomes NaN.
  __device__ void Add(float logit) {
    if (logit > maximum) {
      sum = sum * Exponential(maximum - logit) + 1;
      maximum = logit;
    } else {
      sum += Exponential(logit - maximum);
    }
  }
  __device__ void Add(const RunningSums& other) {
    const float above = other.maximum > maximum ? other.maximum : maximum;
    sum = sum * Exponential(maximum - above) + other.sum * Exponential(other.maximum - above);
    maximum = above;
  }
};

__global__ void MakeLogits(MarginTile tile, float* target, float* maxima, float* sums) {
  const int64_t sample = SampleOfThread(blockIdx.y);
  if (sample >= tile.samples) return;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kStrip;
  const int64_t last = first + kStrip < tile.rows ? first + kStrip : tile.rows;
  const int64_t own = tile.own[sample];
  RunningSums running;
  for (int64_t row = first; row < last; ++row) {
    float& value = tile.values[row * tile.samples + sample];
    const float cosine = ClampedCosine(value);
    float logit = tile.margin.scale * cosine;
    if (row == own) {
      const TargetLogit moved = WithMargin(tile.margin, cosine);
      logit = moved.logit;
      tile.slopes[sample] = moved.slope;
      if (target != nullptr) target[sample] = logit;
    }
    value = logit;
    if (sums != nullptr) running.Add(logit);
  }
  if (sums == nullptr) return;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * tile.samples + sample;
  maxima[at] = running.maximum;
  sums[at] = running.sum;
}

// Merges the maxima and sums of all strips into `maximum` and `sum`, in the order of the strips.
__global__ void AddStrips(const float* __restrict__ maxima, const float* __restrict__ sums,
                          int64_t strips, int64_t samples, float* maximum, float* sum) {
  const int64_t sample = SampleOfThread(blockIdx.x);
  if (sample >= samples) return;
  RunningSums all;
  all.maximum = maximum[sample];
  all.sum = sum[sample];
  for (int64_t strip = 0; strip < strips; ++strip) {
    RunningSums one;
    one.maximum = maxima[strip * samples + sample];
    one.sum = sums[strip * samples + sample];
    all.Add(one);
  }
  maximum[sample] = all.maximum;
  sum[sample] = all.sum;
}

__global__ void MakeCoefficients(MarginTile tile, const float* __restrict__ maximum,
                                 const float* __restrict__ sum) {
  const int64_t sample = SampleOfThread(blockIdx.y);
  if (sample >= tile.samples) return;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kStrip;
  const int64_t last = first + kStrip < tile.rows ? first + kStrip : tile.rows;
  const int64_t own = tile.own[sample];
  const float highest = maximum[sample];
  const float inverse = 1.0F / sum[sample];
  for (int64_t row = first; row < last; ++row) {
    float& value = tile.values[row * tile.samples + sample];
    const float probability = Exponential(value - highest) * inverse;
    value =
        row == own ? (probability - 1.0F) * tile.slopes[sample] : probability * tile.margin.scale;
  }
}

__global__ void RescaleSums(float* sum, const float* __restrict__ own_maximum,
                            const float* __restrict__ maximum, int64_t count) {
  const int64_t i = SampleOfThread(blockIdx.x);
  if (i < count) sum[i] *= Exponential(own_maximum[i] - maximum[i]);
}

}  // namespace

int64_t LogitSumFloats(int64_t rows, int64_t samples) { return 2 * Strips(rows) * samples; }

int LaunchLogits(const MarginTile& tile, float* target, float* maximum, float* sum, float* memory,
                 void* stream) {
  if (tile.rows == 0 || tile.samples == 0) return 0;
  float* const maxima = memory;
  float* const sums = memory == nullptr ? nullptr : memory + Strips(tile.rows) * tile.samples;
  const int error = Launch(MakeLogits, Grid(tile), kThreads, stream, tile, target, maxima, sums);
  if (error != 0 || memory == nullptr) return error;
  return Launch(AddStrips, BlocksOf(tile.samples), kThreads, stream,
                static_cast<const float*>(maxima), static_cast<const float*>(sums),
                Strips(tile.rows), tile.samples, maximum, sum);
}

int LaunchCoefficients(const MarginTile& tile, const float* maximum, const float* sum,
                       void* stream) {
  if (tile.rows == 0 || tile.samples == 0) return 0;
  return Launch(MakeCoefficients, Grid(tile), kThreads, stream, tile, maximum, sum);
}

int LaunchRescale(float* sum, const float* own_maximum, const float* maximum, int64_t count,
                  void* stream) {
  if (count == 0) return 0;
  return Launch(RescaleSums, BlocksOf(count), kThreads, stream, sum, own_maximum, maximum, count);
}

}  // namespace ringmaster::trainer::partial_fc
