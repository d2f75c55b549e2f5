#include <cuda_runtime.h>

#include "worker/trainer/kernels/batch_norm.h"
#include "worker/trainer/kernels/launch.h"
#include "worker/trainer/kernels/stored_numbers.h"

namespace ringmaster::trainer {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int64_t kSumBlocks = 528;    // block limit of kernels with sums: 4 per multiprocessor
constexpr int64_t kMostBlocks = 1056;  // block limit of kernels without sums
constexpr int kAhead = 4;              // number of pieces that a thread loads at once
// With four blocks per multiprocessor, all kSumBlocks blocks run at the same time on an H100.
[[maybe_unused]] constexpr int kAtATime = 4;

// The data that a thread reads and writes at once: adjacent channels of a row.
template <typename T>
struct alignas(16) Piece {
  static constexpr int kLanes = 16 / static_cast<int>(sizeof(T));
  T values[kLanes];
};

// The part of the data that a thread processes: the same channels in several rows.
struct Seat {
  int64_t piece = 0;   // index of the thread's piece in a row
  int64_t pieces = 0;  // number of pieces in a row
  int64_t row = 0;     // the thread's first row
  int64_t stride = 0;  // distance to the thread's next row, in rows
  int across = 0;      // number of threads of this block that share a row
  bool taken = false;
};

template <typename T>
__device__ Seat SeatOfThread(const NormRows& rows) {
  Seat seat;
  seat.pieces = rows.channels / Piece<T>::kLanes;
  seat.across = static_cast<int>(seat.pieces < kThreads ? seat.pieces : kThreads);
  const int at_once = kThreads / seat.across;  // rows
  const int down = static_cast<int>(threadIdx.x) / seat.across;
  seat.piece =
      static_cast<int64_t>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x) % seat.across;
  seat.row = static_cast<int64_t>(blockIdx.x) * at_once + down;
  seat.stride = static_cast<int64_t>(gridDim.x) * at_once;
  seat.taken = down < at_once && seat.piece < seat.pieces;
  return seat;
}

// Calls visit() with the index of each of the thread's pieces in memory. Where possible, `kAhead`
// calls are unrolled, so that the data that visit() only reads is loaded at once.
template <typename Visit>
__device__ void ForEachPlace(const NormRows& rows, const Seat& seat, Visit visit) {
  int64_t row = seat.row;
  for (; row + (kAhead - 1) * seat.stride < rows.rows; row += kAhead * seat.stride) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) visit((row + i * seat.stride) * seat.pieces + seat.piece);
  }
  for (; row < rows.rows; row += seat.stride) visit(row * seat.pieces + seat.piece);
}

template <typename T>
__device__ void Load(const float* values, const Seat& seat, float (&to)[Piece<T>::kLanes]) {
#pragma unroll
  for (int lane = 0; lane < Piece<T>::kLanes; ++lane) {
    to[lane] = values[seat.piece * Piece<T>::kLanes + lane];
  }
}

// Adds up the sums of a block's threads for each channel. Stores them in `parts`, which has a float
// for each sum, channel and block, in this order.
template <typename T, int kSums>
__device__ void StoreParts(const NormRows& rows, const Seat& seat,
                           const float (&sums)[kSums][Piece<T>::kLanes], float* parts) {
  constexpr int kLanes = Piece<T>::kLanes;
  __shared__ float all[kSums * kLanes][kThreads];
#pragma unroll
  for (int sum = 0; sum < kSums; ++sum) {
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      all[sum * kLanes + lane][threadIdx.x] = seat.taken ? sums[sum][lane] : 0;
    }
  }
  __syncthreads();
  const int at_once = kThreads / seat.across;
  for (int i = static_cast<int>(threadIdx.x); i < kSums * kLanes * seat.across; i += kThreads) {
    const int value = i / seat.across;
    const int neighbour = i % seat.across;
    const int64_t piece = static_cast<int64_t>(blockIdx.y) * kThreads + neighbour;
    if (piece >= seat.pieces) continue;
    float total = 0;
    for (int down = 0; down < at_once; ++down) total += all[value][down * seat.across + neighbour];
    const int64_t channel = piece * kLanes + value % kLanes;
    parts[(value / kLanes * rows.channels + channel) * gridDim.x + blockIdx.x] = total;
  }
}

// Returns the sum of `count` parts to all threads of the warp.
__device__ float SumOfParts(const float* parts, int count) {
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < count; i += kWarp) sum += parts[i];
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffU, sum, distance);
  }
  return sum;
}

// Returns the channel that this warp processes; -1: none.
__device__ int64_t ChannelOfWarp(int64_t channels) {
  const int64_t channel = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
  return channel < channels ? channel : -1;
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kAtATime)
    SumDistances(NormRows rows, const Piece<T>* __restrict__ x, float* __restrict__ parts) {
  constexpr int kLanes = Piece<T>::kLanes;
  const Seat seat = SeatOfThread<T>(rows);
  float sums[2][kLanes] = {};  // sums of distances, and of their squares
  if (seat.taken) {
    float first[kLanes];
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) first[lane] = FloatOf(x[seat.piece].values[lane]);
    ForEachPlace(rows, seat, [&](int64_t place) {
      const Piece<T> piece = x[place];
#pragma unroll
      for (int lane = 0; lane < kLanes; ++lane) {
        const float distance = FloatOf(piece.values[lane]) - first[lane];
        sums[0][lane] += distance;
        sums[1][lane] = fmaf(distance, distance, sums[1][lane]);
      }
    });
  }
  StoreParts<T, 2>(rows, seat, sums, parts);
}

template <typename T>
__global__ void MakeStatistics(NormRows rows, const T* __restrict__ x,
                               const float* __restrict__ parts, int blocks, NormStatistics to) {
  const int64_t channel = ChannelOfWarp(rows.channels);
  if (channel < 0) return;
  const auto count = static_cast<float>(rows.rows);
  const float distance = SumOfParts(parts + channel * blocks, blocks) / count;
  const float square = SumOfParts(parts + (rows.channels + channel) * blocks, blocks) / count;
  if (threadIdx.x % kWarp != 0) return;
  const float mean = FloatOf(x[channel]) + distance;
  const float variance = fmaxf(square - distance * distance, 0.0F);
  to.mean[channel] = mean;
  to.inverse[channel] = 1 / sqrtf(variance + to.epsilon);
  if (to.running_mean == nullptr) return;
  to.running_mean[channel] += to.share * mean;
  to.running_variance[channel] += to.share * (variance * (count / (count - 1)));
}

template <typename T, bool kPrelu, bool kShortcut>
__global__ void __launch_bounds__(kThreads)
    Normalise(NormRows rows, NormParameters parameters, const Piece<T>* __restrict__ x,
              const Piece<T>* __restrict__ shortcut, Piece<T>* __restrict__ y) {
  constexpr int kLanes = Piece<T>::kLanes;
  const Seat seat = SeatOfThread<T>(rows);
  if (!seat.taken) return;
  float scale[kLanes];
  float shift[kLanes];
  float slope[kLanes] = {};
  Load<T>(parameters.inverse, seat, scale);
  Load<T>(parameters.mean, seat, shift);
  if constexpr (kPrelu) Load<T>(parameters.slope, seat, slope);
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) {
    const int64_t channel = seat.piece * kLanes + lane;
    scale[lane] *= parameters.weight[channel];
    shift[lane] = fmaf(-shift[lane], scale[lane], parameters.bias[channel]);
  }
  ForEachPlace(rows, seat, [&](int64_t place) {
    const Piece<T> from = x[place];
    Piece<T> to;
    Piece<T> added{};
    if constexpr (kShortcut) added = shortcut[place];
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      float z = fmaf(FloatOf(from.values[lane]), scale[lane], shift[lane]);
      if constexpr (kPrelu) z = z > 0 ? z : slope[lane] * z;
      if constexpr (kShortcut) z += FloatOf(added.values[lane]);
      Store(z, to.values[lane]);
    }
    y[place] = to;
  });
}

// The values that the backward pass needs for a thread's channels.
template <typename T, bool kPrelu>
struct Backward {
  static constexpr int kLanes = Piece<T>::kLanes;
  float mean[kLanes];
  float scale[kLanes];
  float bias[kPrelu ? kLanes : 1];
  float slope[kPrelu ? kLanes : 1];

  __device__ Backward(const NormParameters& parameters, const Seat& seat) {
    Load<T>(parameters.mean, seat, mean);
    Load<T>(parameters.inverse, seat, scale);
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      scale[lane] *= parameters.weight[seat.piece * kLanes + lane];
    }
    if constexpr (kPrelu) {
      Load<T>(parameters.bias, seat, bias);
      Load<T>(parameters.slope, seat, slope);
    }
  }

  // Returns z's gradient for y's `gradient`; adds the slope's to `of_slope`. `distance`: x - mean.
  __device__ float ThroughPrelu(int lane, float distance, float gradient, float& of_slope) const {
    if constexpr (kPrelu) {
      const float z = fmaf(distance, scale[lane], bias[lane]);
      if (z > 0) return gradient;
      of_slope = fmaf(gradient, z, of_slope);
      return gradient * slope[lane];
    } else {
      return gradient;
    }
  }
};

template <typename T, bool kPrelu>
__global__ void __launch_bounds__(kThreads, kPrelu ? kAtATime / 2 : kAtATime)
    SumGradients(NormRows rows, NormParameters parameters, const Piece<T>* __restrict__ x,
                 const Piece<T>* __restrict__ y_gradient, float* __restrict__ parts) {
  constexpr int kLanes = Piece<T>::kLanes;
  constexpr int kSums = kPrelu ? 3 : 2;
  const Seat seat = SeatOfThread<T>(rows);
  float sums[kSums][kLanes] = {};  // sums of gradients, gradient × distance, slope gradients
  if (seat.taken) {
    const Backward<T, kPrelu> back(parameters, seat);
    ForEachPlace(rows, seat, [&](int64_t place) {
      const Piece<T> from = x[place];
      const Piece<T> upstream = y_gradient[place];
#pragma unroll
      for (int lane = 0; lane < kLanes; ++lane) {
        const float distance = FloatOf(from.values[lane]) - back.mean[lane];
        const float gradient = back.ThroughPrelu(lane, distance, FloatOf(upstream.values[lane]),
                                                 sums[kSums - 1][lane]);
        sums[0][lane] += gradient;
        sums[1][lane] = fmaf(gradient, distance, sums[1][lane]);
      }
    });
  }
  StoreParts<T, kSums>(rows, seat, sums, parts);
}

__global__ void MakeGradients(int64_t channels, NormParameters parameters,
                              const float* __restrict__ parts, int blocks, NormGradients to) {
  const int64_t channel = ChannelOfWarp(channels);
  if (channel < 0) return;
  const float bias = SumOfParts(parts + channel * blocks, blocks);
  const float along = SumOfParts(parts + (channels + channel) * blocks, blocks);
  const float slope =
      to.slope == nullptr ? 0 : SumOfParts(parts + (2 * channels + channel) * blocks, blocks);
  if (threadIdx.x % kWarp != 0) return;
  to.bias[channel] = bias;
  to.weight[channel] = along * parameters.inverse[channel];
  if (to.slope != nullptr) to.slope[channel] = slope;
}

template <typename T, bool kPrelu>
__global__ void __launch_bounds__(kThreads)
    NormBackward(NormRows rows, NormParameters parameters, const Piece<T>* __restrict__ x,
                 const Piece<T>* __restrict__ y_gradient, NormGradients sums,
                 Piece<T>* __restrict__ x_gradient) {
  constexpr int kLanes = Piece<T>::kLanes;
  const Seat seat = SeatOfThread<T>(rows);
  if (!seat.taken) return;
  const Backward<T, kPrelu> back(parameters, seat);
  const float one = 1 / static_cast<float>(rows.rows);
  float constant[kLanes];
  float along[kLanes];
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) {
    const int64_t channel = seat.piece * kLanes + lane;
    constant[lane] = back.scale[lane] * one * sums.bias[channel];
    along[lane] = back.scale[lane] * one * sums.weight[channel] * parameters.inverse[channel];
  }
  ForEachPlace(rows, seat, [&](int64_t place) {
    const Piece<T> from = x[place];
    const Piece<T> upstream = y_gradient[place];
    Piece<T> to;
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      const float distance = FloatOf(from.values[lane]) - back.mean[lane];
      float unused = 0;
      const float gradient =
          back.ThroughPrelu(lane, distance, FloatOf(upstream.values[lane]), unused);
      Store(fmaf(-distance, along[lane], fmaf(back.scale[lane], gradient, -constant[lane])),
            to.values[lane]);
    }
    x_gradient[place] = to;
  });
}

// Returns a grid with at most `most` blocks in x, for the rows, and blocks in y for the channels.
template <typename T>
dim3 BlocksFor(const NormRows& rows, int64_t most) {
  const int64_t pieces = rows.channels / Piece<T>::kLanes;
  const int64_t at_once = pieces < kThreads ? kThreads / pieces : 1;
  const int64_t down = (pieces + kThreads - 1) / kThreads;
  const int64_t wanted = (rows.rows + at_once - 1) / at_once;
  return {static_cast<unsigned>(wanted < most ? wanted : most), static_cast<unsigned>(down)};
}

dim3 BlocksForChannels(int64_t channels) {
  return {static_cast<unsigned>((channels * kWarp + kThreads - 1) / kThreads)};
}

template <typename T>
const Piece<T>* PiecesOf(const void* memory) {
  return static_cast<const Piece<T>*>(memory);
}

template <typename T>
int StatisticsOf(const NormRows& rows, const void* x, float* scratch, const NormStatistics& to,
                 void* stream) {
  const dim3 blocks = BlocksFor<T>(rows, kSumBlocks);
  const int error =
      Launch(SumDistances<T>, blocks, kThreads, stream, rows, PiecesOf<T>(x), scratch);
  if (error != 0) return error;
  return Launch(MakeStatistics<T>, BlocksForChannels(rows.channels), kThreads, stream, rows,
                static_cast<const T*>(x), scratch, static_cast<int>(blocks.x), to);
}

template <typename T>
int NormaliseAs(const NormRows& rows, const NormParameters& parameters, const void* x,
                const void* shortcut, void* y, void* stream) {
  const auto kernel = parameters.slope != nullptr ? Normalise<T, true, false>
                      : shortcut != nullptr       ? Normalise<T, false, true>
                                                  : Normalise<T, false, false>;
  return Launch(kernel, BlocksFor<T>(rows, kMostBlocks), kThreads, stream, rows, parameters,
                PiecesOf<T>(x), PiecesOf<T>(shortcut), static_cast<Piece<T>*>(y));
}

template <typename T>
int BackwardOf(const NormRows& rows, const NormParameters& parameters, const void* x,
               const void* y_gradient, float* scratch, const NormGradients& to, void* x_gradient,
               void* stream) {
  const bool prelu = parameters.slope != nullptr;
  const dim3 blocks = BlocksFor<T>(rows, kSumBlocks);
  int error = Launch(prelu ? SumGradients<T, true> : SumGradients<T, false>, blocks, kThreads,
                     stream, rows, parameters, PiecesOf<T>(x), PiecesOf<T>(y_gradient), scratch);
  if (error != 0) return error;
  error = Launch(MakeGradients, BlocksForChannels(rows.channels), kThreads, stream, rows.channels,
                 parameters, scratch, static_cast<int>(blocks.x), to);
  if (error != 0) return error;
  return Launch(prelu ? NormBackward<T, true> : NormBackward<T, false>,
                BlocksFor<T>(rows, kMostBlocks), kThreads, stream, rows, parameters, PiecesOf<T>(x),
                PiecesOf<T>(y_gradient), to, static_cast<Piece<T>*>(x_gradient));
}

// Calls call(number) with a number of the C++ type that corresponds to `type`.
template <typename Call>
int WithType(StoredType type, Call call) {
  switch (type) {
    case StoredType::kFloat16:
      return call(StoredFloat16{});
    case StoredType::kBFloat16:
      return call(StoredBFloat16{});
    case StoredType::kFloat:
      break;
  }
  return call(0.0F);
}

}  // namespace

int64_t NormScratch(const NormRows& rows) { return 3 * rows.channels * kSumBlocks; }

int LaunchNormStatistics(const NormRows& rows, const void* x, float* scratch,
                         const NormStatistics& to, void* stream) {
  return WithType(rows.type, [&](auto number) {
    return StatisticsOf<decltype(number)>(rows, x, scratch, to, stream);
  });
}

int LaunchNormalise(const NormRows& rows, const NormParameters& parameters, const void* x,
                    const void* shortcut, void* y, void* stream) {
  return WithType(rows.type, [&](auto number) {
    return NormaliseAs<decltype(number)>(rows, parameters, x, shortcut, y, stream);
  });
}

int LaunchNormBackward(const NormRows& rows, const NormParameters& parameters, const void* x,
                       const void* y_gradient, float* scratch, const NormGradients& to,
                       void* x_gradient, void* stream) {
  return WithType(rows.type, [&](auto number) {
    return BackwardOf<decltype(number)>(rows, parameters, x, y_gradient, scratch, to, x_gradient,
                                        stream);
  });
}

}  // namespace ringmaster::trainer
