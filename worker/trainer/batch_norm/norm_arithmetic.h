#pragma once

// Batch normalisation in training, followed by a PReLU or the addition of a shortcut. For each
// channel,
//
//   z = (x - mean) * inverse * weight + bias        y = z > 0 ? z : slope * z, or z + shortcut
//
// with gradients as in Ioffe and Szegedy, arXiv 1502.03167, section 3. Sums are float sums of the
// differences from the first row (Chan, Golub and LeVeque 1983, "Algorithms for computing the
// sample variance"), always in the same order, so that results are reproducible to the bit.
//
// This interface defines the arithmetic; batch_norm.h wraps it as a layer. Implemented by
// host_norm.h and, for GPUs, by gpu/kernel_norm.h.

#include <cstdint>

namespace ringmaster::trainer {

enum class StoredType { kFloat, kFloat16, kBFloat16 };

// A matrix of `rows` (pixels of all samples) × `channels`; the channels of a row are adjacent.
struct NormRows {
  StoredType type = StoredType::kFloat;
  int64_t rows = 0;
  int64_t channels = 0;
};

// Each array has one value for each channel.
struct NormParameters {
  const float* weight = nullptr;
  const float* bias = nullptr;
  const float* slope = nullptr;  // slope of a PReLU; null: there is none
  const float* mean = nullptr;
  const float* inverse = nullptr;  // 1 / sqrt(variance + epsilon)
};

// Results of Statistics(), by channel. It also adds the mean and unbiased variance, times `share`
// (the rank's fraction of the global batch), to the running statistics, unless they are null.
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
  float* slope = nullptr;  // set if there is a PReLU
};

// Arrays are in the memory of the device that computes. Calls do not wait for the device. They
// throw if work could not be started. REQUIRES: at least two rows.
class NormArithmetic {
 public:
  virtual ~NormArithmetic() = default;

  // Returns the number of floats of scratch memory that the sums need.
  virtual int64_t Scratch(const NormRows& rows) const = 0;
  virtual void Statistics(const NormRows& rows, const void* x, float* scratch,
                          const NormStatistics& to) const = 0;
  // Adds `shortcut`, of the same shape, unless it is null. REQUIRES: slope or `shortcut` is null.
  virtual void Normalise(const NormRows& rows, const NormParameters& parameters, const void* x,
                         const void* shortcut, void* y) const = 0;
  // Computes the gradients; the gradient of a shortcut is `y_gradient` itself.
  virtual void Backward(const NormRows& rows, const NormParameters& parameters, const void* x,
                        const void* y_gradient, float* scratch, const NormGradients& to,
                        void* x_gradient) const = 0;
};

}  // namespace ringmaster::trainer
