#include "worker/bench/training/resnet.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "worker/trainer/backbones/layers.h"

namespace ringmaster::bench {
namespace {

using trainer::BatchNorm;
using trainer::Convolution;
using trainer::Layers;
using trainer::NamedTensor;

constexpr std::array<int64_t, 4> kChannels{64, 128, 256, 512};
constexpr int kBlocksOfAStage = 2;

struct NormalisedConvolution {
  Convolution convolution;
  BatchNorm normal;

  at::Tensor operator()(const at::Tensor& x, bool training) const {
    return normal(convolution(x), training);
  }
};

NormalisedConvolution Make(Layers& layers, const std::string& name, int64_t from, int64_t to,
                           int64_t kernel, int64_t stride) {
  NormalisedConvolution made;
  made.convolution = layers.MakeConvolution(name + ".conv", from, to, kernel, stride);
  made.normal = layers.MakeBatchNorm(name + ".bn", to);
  return made;
}

struct BasicBlock {
  NormalisedConvolution first;
  NormalisedConvolution second;
  std::optional<NormalisedConvolution> shortcut;  // where size or channels change

  at::Tensor operator()(const at::Tensor& x, bool training) const {
    at::Tensor y = second(first(x, training).relu_(), training);
    y += shortcut ? (*shortcut)(x, training) : x;
    return y.relu_();
  }
};

class ResNet18 final : public trainer::Backbone {
 public:
  explicit ResNet18(const trainer::BackboneOptions& options)
      : layers_(options), first_(Make(layers_, "conv1", options.shape.channels, 64, 3, 1)) {
    int64_t channels = kChannels.front();
    for (std::size_t stage = 0; stage < kChannels.size(); ++stage) {
      for (int i = 0; i < kBlocksOfAStage; ++i) {
        const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
        const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        BasicBlock block{
            .first = Make(layers_, name + ".1", channels, kChannels[stage], 3, stride),
            .second = Make(layers_, name + ".2", kChannels[stage], kChannels[stage], 3, 1),
            .shortcut = {}};
        if (stride != 1) {
          block.shortcut = Make(layers_, name + ".downsample", channels, kChannels[stage], 1, 2);
        }
        channels = kChannels[stage];
        blocks_.push_back(std::move(block));
      }
    }
  }

  const std::vector<NamedTensor>& parameters() const override { return layers_.parameters(); }
  const std::vector<NamedTensor>& averages() const override { return layers_.averages(); }

  at::Tensor Forward(const at::Tensor& images, bool training) override {
    // Convolutions are faster where a pixel's channels are next to each other.
    at::Tensor x = first_(images.contiguous(at::MemoryFormat::ChannelsLast), training).relu_();
    for (const BasicBlock& block : blocks_) x = block(x, training);
    return at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
  }

 private:
  Layers layers_;
  NormalisedConvolution first_;
  std::vector<BasicBlock> blocks_;
};

}  // namespace

std::unique_ptr<trainer::Backbone> MakeResNet18(const trainer::BackboneOptions& options) {
  return std::make_unique<ResNet18>(options);
}

}  // namespace ringmaster::bench
