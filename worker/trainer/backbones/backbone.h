#pragma once

// A network that computes embeddings from images. Its tensors are explicit, so that parameters can
// be part of the trainer's flat memory. Does not depend on losses, ranks or sessions.
//
// In training, batch normalisation uses the statistics of the samples that are computed together,
// which are a rank's micro-batch. Running statistics are part of the state, like parameters. Their
// "gradient" is the batch's statistic times the rank's share of the global batch. The sum of these
// gradients over the ranks is the mean; the sum is never compressed. The optimizer moves the
// running statistics towards the mean (SgdOptions::averages), so they are equal on every rank. They
// are compared, sent and checkpointed with the state.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "worker/trainer/data/labelled_images.h"
#include "worker/trainer/numeric/precision.h"

namespace ringmaster::trainer {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// Not thread-safe. Throws LibTorch's exceptions.
class Backbone {
 public:
  virtual ~Backbone() = default;

  // Leaf tensors of autograd, initialised from the seed.
  virtual const std::vector<NamedTensor>& parameters() const = 0;
  // Running statistics: leaf tensors outside of the autograd graph. If autograd is enabled and they
  // have gradients, Forward() adds the batch's statistics to these gradients.
  virtual const std::vector<NamedTensor>& averages() const = 0;

  // `images` has the shape samples × channels × side × side, and the result samples × dimension.
  virtual at::Tensor Forward(const at::Tensor& images, bool training) = 0;
};

struct BackboneOptions {
  ImageShape shape;
  int64_t dimension = 512;
  uint64_t seed = 1;
  int64_t global_batch = 1;  // samples of a step; Forward() gets one rank's share
  Precision precision = Precision::kFloat32;
  at::Device device = at::kCPU;
};

// `name` must be one of BackboneNames().
std::unique_ptr<Backbone> MakeBackbone(const std::string& name, const BackboneOptions& options);
std::vector<std::string> BackboneNames();

}  // namespace ringmaster::trainer
