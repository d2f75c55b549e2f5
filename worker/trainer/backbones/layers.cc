#include "worker/trainer/backbones/layers.h"

#include <cmath>
#include <memory>
#include <numbers>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "worker/trainer/batch_norm/batch_norm.h"
#include "worker/trainer/batch_norm/host_norm.h"
#include "worker/trainer/gpu/gpu_norm.h"
#include "worker/trainer/numeric/philox.h"

namespace ringmaster::trainer {
namespace {

constexpr double kEpsilon = 1e-5;

// Adds `share` times the batch's statistic to the gradient of a running statistic. The sum over the
// ranks is then the mean over all samples, of which this rank has the fraction `share`.
void Contribute(const at::Tensor& average, const at::Tensor& statistic, double share) {
  at::Tensor gradient = average.grad();
  if (gradient.defined()) gradient.add_(statistic, share);
}

// Returns the gradient of a running statistic if a layer must add the batch's statistic to it,
// otherwise an undefined tensor. The tensor does not share autograd's version counter with the
// gradient, because other layers later write to the same flat memory.
at::Tensor Target(const at::Tensor& average) {
  const at::Tensor& gradient = average.grad();
  return gradient.defined() && c10::GradMode::is_enabled() ? gradient.variable_data()
                                                           : at::Tensor();
}

// Returns Ringmaster's implementation if it supports `x`; null selects LibTorch's.
std::shared_ptr<const NormArithmetic> ArithmeticFor(const at::Tensor& x) {
  if (x.dim() != 2 && x.dim() != 4) return nullptr;
  if (x.is_cpu()) return x.scalar_type() == at::kFloat ? HostNorm() : nullptr;
  return GpuNormFor(x);
}

}  // namespace

at::Tensor Convolution::operator()(const at::Tensor& x) const {
  // Convolutions in 16-bit formats need weights in channels-last memory.
  const at::Tensor kernel =
      type == at::kFloat ? weight : weight.to(type, false, false, at::MemoryFormat::ChannelsLast);
  return at::conv2d(x.to(type), kernel, {}, stride, padding);
}

at::Tensor Prelu::operator()(const at::Tensor& x) const {
  return at::prelu(x, weight.to(x.scalar_type()));
}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  return at::linear(x.to(type), weight.to(type), bias.to(type)).to(at::kFloat);
}

at::Tensor BatchNorm::operator()(const at::Tensor& x, bool training) const {
  return Apply(x, training, nullptr, {});
}

at::Tensor BatchNorm::Then(const Prelu& prelu, const at::Tensor& x, bool training) const {
  return Apply(x, training, &prelu, {});
}

at::Tensor BatchNorm::Plus(const at::Tensor& shortcut, const at::Tensor& x, bool training) const {
  return Apply(x, training, nullptr, shortcut);
}

at::Tensor BatchNorm::Apply(const at::Tensor& x, bool training, const Prelu* prelu,
                            const at::Tensor& shortcut) const {
  const double share = static_cast<double>(x.size(0)) / static_cast<double>(global_batch);
  // If there is only one value per channel, its variance is undefined, and the layer uses the
  // running statistics.
  const bool by_batch = training && x.numel() / x.size(1) > 1;
  if (training && !by_batch && c10::GradMode::is_enabled()) {
    const c10::AutoGradMode no_gradients(false);
    Contribute(mean, mean, share);
    Contribute(variance, variance, share);
  }
  auto arithmetic = by_batch ? ArithmeticFor(x) : nullptr;
  if (arithmetic != nullptr) {
    return BatchNormalise(std::move(arithmetic), x,
                          {.weight = weight,
                           .bias = bias,
                           .running_mean = Target(mean),
                           .running_variance = Target(variance),
                           .share = share,
                           .epsilon = kEpsilon},
                          prelu == nullptr ? at::Tensor() : prelu->weight, shortcut);
  }
  // LibTorch overwrites these tensors with the batch's statistics. Their previous values have no
  // effect but must be finite.
  const auto statistic = [&](const at::Tensor& average) {
    return by_batch ? at::zeros_like(average.detach()) : average.detach();
  };
  const at::Tensor its_mean = statistic(mean);
  const at::Tensor its_variance = statistic(variance);
  const at::Tensor normal = std::get<0>(
      at::native_batch_norm(x, weight, bias, its_mean, its_variance, by_batch, 1, kEpsilon));
  if (by_batch && c10::GradMode::is_enabled()) {
    Contribute(mean, its_mean, share);
    Contribute(variance, its_variance, share);
  }
  if (prelu != nullptr) return (*prelu)(normal);
  return shortcut.defined() ? normal + shortcut : normal;
}

template <typename Draw>
at::Tensor Layers::Random(at::IntArrayRef sizes, Draw draw) const {
  at::Tensor tensor = at::empty(sizes, at::kFloat);
  auto* values = tensor.data_ptr<float>();
  for (int64_t i = 0; i < tensor.numel(); i += 2) {
    const PhiloxBlock block = RandomBlock(seed_, RandomPurpose::kInitialParameters,
                                          parameters_.size(), static_cast<uint32_t>(i / 2), 0);
    values[i] = draw(UnitFloat(block.words[0]), UnitFloat(block.words[1]));
    if (i + 1 < tensor.numel()) {
      values[i + 1] = draw(UnitFloat(block.words[2]), UnitFloat(block.words[3]));
    }
  }
  return tensor;
}

at::Tensor Layers::Leaf(const at::Tensor& values) const {
  return values.to(device_).requires_grad_(true);
}

at::Tensor Layers::Add(const std::string& name, const at::Tensor& values) {
  parameters_.push_back({.name = name, .tensor = Leaf(values)});
  return parameters_.back().tensor;
}

at::Tensor Layers::AddAverage(const std::string& name, const at::Tensor& values) {
  averages_.push_back({.name = name, .tensor = Leaf(values)});
  return averages_.back().tensor;
}

Convolution Layers::MakeConvolution(const std::string& name, int64_t from, int64_t to,
                                    int64_t kernel, int64_t stride) {
  constexpr float kDeviation = 0.1F;
  const auto normal = [](float u, float v) {  // Box-Muller transform
    return kDeviation * std::sqrt(-2 * std::log(1 - u)) *
           std::cos(2 * std::numbers::pi_v<float> * v);
  };
  const at::Tensor weight = Random({to, from, kernel, kernel}, normal);
  return {.weight = Add(name + ".weight", weight.contiguous(at::MemoryFormat::ChannelsLast)),
          .stride = stride,
          .padding = kernel / 2,
          .type = type_};
}

BatchNorm Layers::MakeBatchNorm(const std::string& name, int64_t channels) {
  return {.weight = Add(name + ".weight", at::ones({channels}, at::kFloat)),
          .bias = Add(name + ".bias", at::zeros({channels}, at::kFloat)),
          .mean = AddAverage(name + ".running_mean", at::zeros({channels}, at::kFloat)),
          .variance = AddAverage(name + ".running_var", at::ones({channels}, at::kFloat)),
          .global_batch = global_batch_};
}

Prelu Layers::MakePrelu(const std::string& name, int64_t channels) {
  return {.weight = Add(name + ".weight", at::full({channels}, 0.25, at::kFloat))};
}

Linear Layers::MakeLinear(const std::string& name, int64_t from, int64_t to) {
  const float bound = 1 / std::sqrt(static_cast<float>(from));
  const auto uniform = [bound](float u, float) { return bound * (2 * u - 1); };
  Linear linear{.weight = {}, .bias = {}, .type = type_};
  linear.weight = Add(name + ".weight", Random({to, from}, uniform));
  linear.bias = Add(name + ".bias", Random({to}, uniform));
  return linear;
}

}  // namespace ringmaster::trainer
