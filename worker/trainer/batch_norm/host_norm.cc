#include "worker/trainer/batch_norm/host_norm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <ATen/Parallel.h>

#include "worker/trainer/numeric/vectorised.h"

namespace ringmaster::trainer {
namespace {

constexpr int64_t kParts = 64;  // number of groups of rows that are summed separately
constexpr int kSums = 3;

// Factors and terms of the loops below, with one value for each channel.
struct Coefficients {
  std::vector<float> scale, shift;
  std::vector<float> constant, along;  // only for the backward pass
};

// The functions below compute both results of each condition, so that loops are vectorised.

RINGMASTER_VECTORISED void AddDistances(const float* __restrict x, int64_t rows, int64_t channels,
                                        const float* __restrict first, float* __restrict sum,
                                        float* __restrict square) {
  for (int64_t row = 0; row < rows; ++row, x += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      const float distance = x[c] - first[c];
      sum[c] += distance;
      square[c] += distance * distance;
    }
  }
}

RINGMASTER_VECTORISED void Scale(const float* __restrict x, int64_t rows, int64_t channels,
                                 const float* __restrict scale, const float* __restrict shift,
                                 float* __restrict y) {
  for (int64_t row = 0; row < rows; ++row, x += channels, y += channels) {
    for (int64_t c = 0; c < channels; ++c) y[c] = x[c] * scale[c] + shift[c];
  }
}

RINGMASTER_VECTORISED void ScaleAndPrelu(const float* __restrict x, int64_t rows, int64_t channels,
                                         const float* __restrict scale,
                                         const float* __restrict shift,
                                         const float* __restrict slope, float* __restrict y) {
  for (int64_t row = 0; row < rows; ++row, x += channels, y += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      const float z = x[c] * scale[c] + shift[c];
      const float negative = slope[c] * z;
      y[c] = z > 0 ? z : negative;
    }
  }
}

RINGMASTER_VECTORISED void ScaleAndAdd(const float* __restrict x, int64_t rows, int64_t channels,
                                       const float* __restrict scale, const float* __restrict shift,
                                       const float* __restrict shortcut, float* __restrict y) {
  for (int64_t row = 0; row < rows; ++row, x += channels, y += channels, shortcut += channels) {
    for (int64_t c = 0; c < channels; ++c) y[c] = x[c] * scale[c] + shift[c] + shortcut[c];
  }
}

RINGMASTER_VECTORISED void AddGradients(const float* __restrict x,
                                        const float* __restrict y_gradient, int64_t rows,
                                        int64_t channels, const float* __restrict mean,
                                        float* __restrict sum, float* __restrict along) {
  for (int64_t row = 0; row < rows; ++row, x += channels, y_gradient += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      sum[c] += y_gradient[c];
      along[c] += y_gradient[c] * (x[c] - mean[c]);
    }
  }
}

RINGMASTER_VECTORISED void AddGradientsThroughPrelu(
    const float* __restrict x, const float* __restrict y_gradient, int64_t rows, int64_t channels,
    const float* __restrict mean, const float* __restrict scale, const float* __restrict shift,
    const float* __restrict slope, float* __restrict sum, float* __restrict along,
    float* __restrict of_slope) {
  for (int64_t row = 0; row < rows; ++row, x += channels, y_gradient += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      const float z = x[c] * scale[c] + shift[c];
      const float scaled = y_gradient[c] * slope[c];
      const float of_negative = y_gradient[c] * z;
      const float gradient = z > 0 ? y_gradient[c] : scaled;
      const float slope_gradient = z > 0 ? 0 : of_negative;
      sum[c] += gradient;
      along[c] += gradient * (x[c] - mean[c]);
      of_slope[c] += slope_gradient;
    }
  }
}

RINGMASTER_VECTORISED void ComputeInputGradients(const float* __restrict x,
                                                 const float* __restrict y_gradient, int64_t rows,
                                                 int64_t channels, const float* __restrict scale,
                                                 const float* __restrict constant,
                                                 const float* __restrict along,
                                                 float* __restrict to) {
  for (int64_t row = 0; row < rows; ++row, x += channels, y_gradient += channels, to += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      to[c] = scale[c] * y_gradient[c] + constant[c] - x[c] * along[c];
    }
  }
}

RINGMASTER_VECTORISED void ComputeInputGradientsThroughPrelu(
    const float* __restrict x, const float* __restrict y_gradient, int64_t rows, int64_t channels,
    const float* __restrict scale, const float* __restrict shift, const float* __restrict slope,
    const float* __restrict constant, const float* __restrict along, float* __restrict to) {
  for (int64_t row = 0; row < rows; ++row, x += channels, y_gradient += channels, to += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      const float z = x[c] * scale[c] + shift[c];
      const float scaled = y_gradient[c] * slope[c];
      const float gradient = z > 0 ? y_gradient[c] : scaled;
      to[c] = scale[c] * gradient + constant[c] - x[c] * along[c];
    }
  }
}

// Calls visit(part, first row, number of rows) for each part, on several threads.
template <typename Visit>
void ForEachPart(const NormRows& rows, Visit visit) {
  const int64_t size = (rows.rows + kParts - 1) / kParts;
  at::parallel_for(0, kParts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = std::min(rows.rows, part * size);
      visit(part, first, std::min(rows.rows, first + size) - first);
    }
  });
}

// Returns sum `sum` of a part, with one value per channel. Sums are stored part by part.
float* SumOf(float* scratch, const NormRows& rows, int64_t part, int sum) {
  return scratch + (part * kSums + sum) * rows.channels;
}

// Adds the sums of all parts to those of the first part.
void AddParts(const NormRows& rows, float* scratch) {
  for (int64_t part = 1; part < kParts; ++part) {
    const float* const from = SumOf(scratch, rows, part, 0);
    for (int64_t i = 0; i < kSums * rows.channels; ++i) scratch[i] += from[i];
  }
}

Coefficients CoefficientsOf(const NormRows& rows, const NormParameters& parameters) {
  const auto channels = static_cast<std::size_t>(rows.channels);
  Coefficients made{.scale = std::vector<float>(channels),
                    .shift = std::vector<float>(channels),
                    .constant = {},
                    .along = {}};
  for (std::size_t c = 0; c < channels; ++c) {
    made.scale[c] = parameters.weight[c] * parameters.inverse[c];
    made.shift[c] = parameters.bias[c] - parameters.mean[c] * made.scale[c];
  }
  return made;
}

class Host final : public NormArithmetic {
 public:
  int64_t Scratch(const NormRows& rows) const override { return kParts * kSums * rows.channels; }

  void Statistics(const NormRows& rows, const void* x, float* scratch,
                  const NormStatistics& to) const override {
    const auto* const values = static_cast<const float*>(x);
    std::fill_n(scratch, Scratch(rows), 0.0F);
    ForEachPart(rows, [&](int64_t part, int64_t first, int64_t count) {
      AddDistances(values + first * rows.channels, count, rows.channels, values,
                   SumOf(scratch, rows, part, 0), SumOf(scratch, rows, part, 1));
    });
    AddParts(rows, scratch);
    const auto count = static_cast<float>(rows.rows);
    for (int64_t c = 0; c < rows.channels; ++c) {
      const float distance = scratch[c] / count;
      const float square = scratch[rows.channels + c] / count;
      const float variance = std::max(square - distance * distance, 0.0F);
      to.mean[c] = values[c] + distance;
      to.inverse[c] = 1 / std::sqrt(variance + to.epsilon);
      if (to.running_mean == nullptr) continue;
      to.running_mean[c] += to.share * to.mean[c];
      to.running_variance[c] += to.share * (variance * (count / (count - 1)));
    }
  }

  void Normalise(const NormRows& rows, const NormParameters& parameters, const void* x,
                 const void* shortcut, void* y) const override {
    const Coefficients of = CoefficientsOf(rows, parameters);
    ForEachPart(rows, [&](int64_t, int64_t first, int64_t count) {
      const int64_t at = first * rows.channels;
      const auto* const from = static_cast<const float*>(x) + at;
      auto* const to = static_cast<float*>(y) + at;
      if (parameters.slope != nullptr) {
        ScaleAndPrelu(from, count, rows.channels, of.scale.data(), of.shift.data(),
                      parameters.slope, to);
      } else if (shortcut != nullptr) {
        ScaleAndAdd(from, count, rows.channels, of.scale.data(), of.shift.data(),
                    static_cast<const float*>(shortcut) + at, to);
      } else {
        Scale(from, count, rows.channels, of.scale.data(), of.shift.data(), to);
      }
    });
  }

  void Backward(const NormRows& rows, const NormParameters& parameters, const void* x,
                const void* y_gradient, float* scratch, const NormGradients& to,
                void* x_gradient) const override {
    Coefficients of = CoefficientsOf(rows, parameters);
    const int64_t channels = rows.channels;
    const auto* const values = static_cast<const float*>(x);
    const auto* const gradients = static_cast<const float*>(y_gradient);
    std::fill_n(scratch, Scratch(rows), 0.0F);
    ForEachPart(rows, [&](int64_t part, int64_t first, int64_t count) {
      const int64_t at = first * channels;
      float* const sum = SumOf(scratch, rows, part, 0);
      float* const along = SumOf(scratch, rows, part, 1);
      if (parameters.slope == nullptr) {
        AddGradients(values + at, gradients + at, count, channels, parameters.mean, sum, along);
      } else {
        AddGradientsThroughPrelu(values + at, gradients + at, count, channels, parameters.mean,
                                 of.scale.data(), of.shift.data(), parameters.slope, sum, along,
                                 SumOf(scratch, rows, part, 2));
      }
    });
    AddParts(rows, scratch);
    of.constant.resize(of.scale.size());
    of.along.resize(of.scale.size());
    const float one = 1 / static_cast<float>(rows.rows);
    for (int64_t c = 0; c < channels; ++c) {
      const auto i = static_cast<std::size_t>(c);
      to.bias[c] = scratch[c];
      to.weight[c] = scratch[channels + c] * parameters.inverse[c];
      if (to.slope != nullptr) to.slope[c] = scratch[2 * channels + c];
      of.along[i] = of.scale[i] * one * to.weight[c] * parameters.inverse[c];
      of.constant[i] = of.along[i] * parameters.mean[c] - of.scale[i] * one * to.bias[c];
    }
    ForEachPart(rows, [&](int64_t, int64_t first, int64_t count) {
      const int64_t at = first * channels;
      auto* const back = static_cast<float*>(x_gradient) + at;
      if (parameters.slope == nullptr) {
        ComputeInputGradients(values + at, gradients + at, count, channels, of.scale.data(),
                              of.constant.data(), of.along.data(), back);
      } else {
        ComputeInputGradientsThroughPrelu(values + at, gradients + at, count, channels,
                                          of.scale.data(), of.shift.data(), parameters.slope,
                                          of.constant.data(), of.along.data(), back);
      }
    });
  }
};

}  // namespace

std::shared_ptr<const NormArithmetic> HostNorm() {
  static const auto arithmetic = std::make_shared<const Host>();
  return arithmetic;
}

}  // namespace ringmaster::trainer
