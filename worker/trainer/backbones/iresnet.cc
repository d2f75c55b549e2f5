// IResNet, the residual network of ArcFace's code (Duta et al., "Improved Residual Networks", arXiv
// 2004.04989, in the form of insightface's arcface_torch): batch normalisation before each
// convolution, PReLU, and no activation after the addition. Its last layers are a batch
// normalisation, a linear layer and a batch normalisation. As in Partial FC, it has no dropout.

#include <array>
#include <optional>

#include <ATen/ATen.h>

#include "worker/trainer/backbones/backbones.h"
#include "worker/trainer/backbones/layers.h"

namespace ringmaster::trainer {
namespace {

constexpr std::array<int64_t, 4> kStageChannels{64, 128, 256, 512};

struct Shortcut {
  Convolution convolution;
  BatchNorm normal;
};

struct Block {
  BatchNorm normal1;
  Convolution convolution1;
  BatchNorm normal2;
  Prelu prelu;
  Convolution convolution2;
  BatchNorm normal3;
  std::optional<Shortcut> shortcut;  // set if the block changes the image size or channel count

  at::Tensor operator()(const at::Tensor& x, bool training) const {
    at::Tensor y = convolution1(normal1(x, training));
    y = convolution2(normal2.Then(prelu, y, training));
    return normal3.Plus(shortcut ? shortcut->normal(shortcut->convolution(x), training) : x, y,
                        training);
  }
};

Block MakeBlock(Layers& layers, const std::string& name, int64_t from, int64_t to, int64_t stride) {
  Block block{.normal1 = layers.MakeBatchNorm(name + ".bn1", from),
              .convolution1 = layers.MakeConvolution(name + ".conv1", from, to, 3, 1),
              .normal2 = layers.MakeBatchNorm(name + ".bn2", to),
              .prelu = layers.MakePrelu(name + ".prelu", to),
              .convolution2 = layers.MakeConvolution(name + ".conv2", to, to, 3, stride),
              .normal3 = layers.MakeBatchNorm(name + ".bn3", to),
              .shortcut = {}};
  if (stride != 1 || from != to) {
    block.shortcut = {
        .convolution = layers.MakeConvolution(name + ".downsample.0", from, to, 1, stride),
        .normal = layers.MakeBatchNorm(name + ".downsample.1", to)};
  }
  return block;
}

class IResNet final : public Backbone {
 public:
  IResNet(const BackboneOptions& options, const IResNetStages& stages)
      : layers_(options),
        convolution_(layers_.MakeConvolution("conv1", options.shape.channels, 64, 3, 1)),
        normal1_(layers_.MakeBatchNorm("bn1", 64)),
        prelu_(layers_.MakePrelu("prelu", 64)) {
    int64_t channels = 64;
    int64_t side = options.shape.side;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      for (int i = 0; i < stages[stage]; ++i) {
        blocks_.push_back(MakeBlock(layers_,
                                    "layer" + std::to_string(stage + 1) + "." + std::to_string(i),
                                    channels, kStageChannels[stage], i == 0 ? 2 : 1));
        channels = kStageChannels[stage];
      }
      side = (side + 1) / 2;
    }
    normal2_ = layers_.MakeBatchNorm("bn2", channels);
    linear_ = layers_.MakeLinear("fc", channels * side * side, options.dimension);
    features_ = layers_.MakeBatchNorm("features", options.dimension);
  }

  const std::vector<NamedTensor>& parameters() const override { return layers_.parameters(); }
  const std::vector<NamedTensor>& averages() const override { return layers_.averages(); }

  at::Tensor Forward(const at::Tensor& images, bool training) override {
    // Convolutions are faster if the channels of a pixel are adjacent in memory.
    const at::Tensor pixels = images.contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor x = normal1_.Then(prelu_, convolution_(pixels), training);
    for (const Block& block : blocks_) x = block(x, training);
    x = normal2_(x, training).flatten(1);
    return features_(linear_(x), training);
  }

 private:
  Layers layers_;
  Convolution convolution_;
  BatchNorm normal1_;
  Prelu prelu_;
  std::vector<Block> blocks_;
  BatchNorm normal2_;
  Linear linear_;
  BatchNorm features_;
};

}  // namespace

std::unique_ptr<Backbone> MakeIResNet(const BackboneOptions& options, const IResNetStages& stages) {
  return std::make_unique<IResNet>(options, stages);
}

}  // namespace ringmaster::trainer
