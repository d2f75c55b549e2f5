#pragma once

// Batch normalisation in training, with what follows it in one pass each: a PReLU, or the addition
// of a shortcut. Of LibTorch's kernels for channels that lie next to each other, the one for the
// statistics reaches a quarter of the memory's bandwidth, and each activation goes through memory
// once more, there and back.
//
//   z = (x - mean) * inverse * weight + bias        y = z > 0 ? z : slope * z, or z + shortcut
//
// Gradients as in Ioffe and Szegedy, arXiv 1502.03167, section 3. Sums are of floats, the values'
// distance from the first row's (Chan, Golub and LeVeque 1983, "Algorithms for computing the sample
// variance"), always in the same order: the same bits each time.

#include <cstdint>

namespace ringmaster::trainer {

enum class StoredType { kFloat, kFloat16, kBFloat16 };

// `rows` (pixels of all samples) times `channels`, those of a row next to each other; 16-byte
// aligned.
struct NormRows {
  StoredType type = StoredType::kFloat;
  int64_t rows = 0;
  int64_t channels = 0;  // a multiple of kNormChannels
};
constexpr int64_t kNormChannels = 8;

// By channel.
struct NormParameters {
  const float* weight = nullptr;
  const float* bias = nullptr;
  const float* slope = nullptr;  // of a PReLU; null: none follows
  const float* mean = nullptr;
  const float* inverse = nullptr;  // 1 / sqrt(variance + epsilon)
};

// Where statistics go, by channel. `share` of mean and unbiased variance is added to the running
// ones; null: nowhere.
struct NormStatistics {
  float* mean = nullptr;
  float* inverse = nullptr;
  float* running_mean = nullptr;
  float* running_variance = nullptr;
  float share = 0;
  float epsilon = 0;
};

struct NormGradients {
  float* weight = nullptr;
  float* bias = nullptr;
  float* slope = nullptr;  // where there is a PReLU
};

// Floats of memory that a launch needs for its sums, whatever it held.
int64_t NormScratch(const NormRows& rows);

// All put work on `stream` (a cudaStream_t) and return CUDA's error number, 0 for none.
// REQUIRES: at least two rows.
int LaunchNormStatistics(const NormRows& rows, const void* x, float* scratch,
                         const NormStatistics& to, void* stream);
// `shortcut`, of the same form, is added; null: nothing. Not together with a slope.
int LaunchNormalise(const NormRows& rows, const NormParameters& parameters, const void* x,
                    const void* shortcut, void* y, void* stream);
// Of `y_gradient`, which a shortcut's gradient is too.
int LaunchNormBackward(const NormRows& rows, const NormParameters& parameters, const void* x,
                       const void* y_gradient, float* scratch, const NormGradients& to,
                       void* x_gradient, void* stream);

}  // namespace ringmaster::trainer
