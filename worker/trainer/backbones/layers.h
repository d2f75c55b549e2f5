#pragma once

// The building blocks of backbones: layers and their tensors, which a Layers object creates and
// lists. The initial values of a tensor depend only on the seed and its index in the list.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "worker/trainer/backbones/backbone.h"
#include "worker/trainer/backbones/precision_type.h"

namespace ringmaster::trainer {

// `type` is the number type in which a layer computes. A convolution returns values of this type,
// normalisation and PReLU accept any type, and a linear layer returns float.
struct Convolution {
  at::Tensor weight;
  int64_t stride = 1;
  int64_t padding = 1;
  at::ScalarType type = at::kFloat;

  at::Tensor operator()(const at::Tensor& x) const;
};

struct Prelu {
  at::Tensor weight;

  at::Tensor operator()(const at::Tensor& x) const;
};

struct BatchNorm {
  at::Tensor weight, bias;
  at::Tensor mean, variance;  // running statistics
  int64_t global_batch = 1;

  at::Tensor operator()(const at::Tensor& x, bool training) const;
  // Then() and Plus() also apply a PReLU or add `shortcut`, if possible in the same pass.
  at::Tensor Then(const Prelu& prelu, const at::Tensor& x, bool training) const;
  at::Tensor Plus(const at::Tensor& shortcut, const at::Tensor& x, bool training) const;

 private:
  at::Tensor Apply(const at::Tensor& x, bool training, const Prelu* prelu,
                   const at::Tensor& shortcut) const;
};

struct Linear {
  at::Tensor weight, bias;
  at::ScalarType type = at::kFloat;

  at::Tensor operator()(const at::Tensor& x) const;
};

class Layers {
 public:
  explicit Layers(const BackboneOptions& options)
      : seed_(options.seed),
        global_batch_(options.global_batch),
        type_(TypeOf(options.precision)),
        device_(options.device) {}

  // Creates a square kernel without bias; values are normal, with deviation 0.1 (arcface_torch).
  Convolution MakeConvolution(const std::string& name, int64_t from, int64_t to, int64_t kernel,
                              int64_t stride);
  BatchNorm MakeBatchNorm(const std::string& name, int64_t channels);
  Prelu MakePrelu(const std::string& name, int64_t channels);
  // Initial values are uniform in ±1/sqrt(from).
  Linear MakeLinear(const std::string& name, int64_t from, int64_t to);

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const std::vector<NamedTensor>& averages() const { return averages_; }

 private:
  at::Tensor Add(const std::string& name, const at::Tensor& values);
  at::Tensor AddAverage(const std::string& name, const at::Tensor& values);
  at::Tensor Leaf(const at::Tensor& values) const;
  // `draw` computes a value from two uniform numbers in [0, 1).
  template <typename Draw>
  at::Tensor Random(at::IntArrayRef sizes, Draw draw) const;

  const uint64_t seed_;
  const int64_t global_batch_;
  const at::ScalarType type_;
  const at::Device device_;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> averages_;
};

}  // namespace ringmaster::trainer
