#include "worker/bench/training/image_classifier.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "worker/trainer/backbones/backbone.h"
#include "worker/trainer/backbones/layers.h"
#include "worker/trainer/numeric/alignment.h"

namespace ringmaster::bench {
namespace {

using trainer::Backbone;
using trainer::BatchNorm;
using trainer::Convolution;
using trainer::Layers;
using trainer::NamedTensor;
using trainer::Prelu;
using trainer::Share;

constexpr std::array<int64_t, 4> kChannels{64, 128, 256, 512};
constexpr int kBlocksOfAStage = 2;

struct NormalisedConvolution {
  Convolution convolution;
  BatchNorm normal;
  Prelu relu;  // a PReLU with slope zero, that is, a ReLU

  at::Tensor operator()(const at::Tensor& x, bool training) const {
    return normal(convolution(x), training);
  }
  at::Tensor ThenRelu(const at::Tensor& x, bool training) const {
    return normal.Then(relu, convolution(x), training);
  }
  at::Tensor Plus(const at::Tensor& shortcut, const at::Tensor& x, bool training) const {
    return normal.Plus(shortcut, convolution(x), training);
  }
};

NormalisedConvolution Make(Layers& layers, const std::string& name, int64_t from, int64_t to,
                           int64_t kernel, int64_t stride) {
  NormalisedConvolution made;
  made.convolution = layers.MakeConvolution(name + ".conv", from, to, kernel, stride);
  made.normal = layers.MakeBatchNorm(name + ".bn", to);
  made.relu.weight = at::zeros({to});
  return made;
}

struct BasicBlock {
  NormalisedConvolution first;
  NormalisedConvolution second;
  std::optional<NormalisedConvolution> shortcut;  // set if size or channels change

  at::Tensor operator()(const at::Tensor& x, bool training) const {
    const at::Tensor y = first.ThenRelu(x, training);
    return second.Plus(shortcut ? (*shortcut)(x, training) : x, y, training).relu_();
  }
};

// ResNet-18 for small images (He et al., arXiv 1512.03385, section 4.2, with the four stages of the
// ImageNet network). It is a common benchmark of a convolutional network that is limited by
// arithmetic. As a backbone, it ends with 512 pooled features, regardless of the options.
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
    // Convolutions are faster if a pixel's channels are adjacent in memory.
    at::Tensor x = first_.ThenRelu(images.contiguous(at::MemoryFormat::ChannelsLast), training);
    for (const BasicBlock& block : blocks_) x = block(x, training);
    return at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
  }

 private:
  Layers layers_;
  NormalisedConvolution first_;
  std::vector<BasicBlock> blocks_;
};

constexpr uint64_t kClassifierSeed = 1;
constexpr int64_t kFeatures = 512;

std::unique_ptr<Backbone> BackboneOf(const ImageNetwork& network) {
  const trainer::BackboneOptions options{.shape = {.channels = 3, .side = network.side},
                                         .dimension = kFeatures,
                                         .seed = kClassifierSeed};
  if (std::string(network.name) == "iresnet18") return trainer::MakeBackbone("r18", options);
  return std::make_unique<ResNet18>(options);
}

class ImageClassifier final : public trainer::Workload {
 public:
  ImageClassifier(const ImageNetwork& network, int64_t global_batch, int64_t samples)
      : order_(kClassifierSeed, samples, global_batch), backbone_(BackboneOf(network)) {
    head_ = layers_.MakeLinear("head", kFeatures, network.classes);
    at::manual_seed(kClassifierSeed);
    images_ = at::randn({samples, 3, network.side, network.side});
    labels_ = at::randint(network.classes, {samples}, at::kLong);
  }

  std::vector<at::Tensor> parameters() override {
    std::vector<at::Tensor> all;
    for (const NamedTensor& average : backbone_->averages()) all.push_back(average.tensor);
    for (const NamedTensor& parameter : backbone_->parameters()) all.push_back(parameter.tensor);
    for (const NamedTensor& parameter : layers_.parameters()) all.push_back(parameter.tensor);
    return all;
  }
  int64_t averages() const override {
    int64_t room = 0;
    for (const NamedTensor& average : backbone_->averages()) {
      room += trainer::AlignedCount(average.tensor.numel());
    }
    return room;
  }
  std::string model() const override { return "image-classifier float32\n"; }
  const trainer::DataOrder& order() const override { return order_; }
  int64_t held_out_size() const override { return 0; }
  uint64_t fingerprint() const override { return 1; }

  void WarmUp() override {
    trainer::LoneCollectives alone;
    Load(0, Share{.begin = 0, .end = 2});
    static_cast<void>(Forward(alone));
    static_cast<void>(Backward(alone));
  }

  void Load(int64_t step, const trainer::MicroBatches& parts) override {
    const Share share = parts.share();
    at::Tensor chosen = at::empty({share.size()}, at::kLong);
    auto* const indices = chosen.data_ptr<int64_t>();
    for (int64_t i = 0; i < share.size(); ++i) indices[i] = order_.SampleAt(step, share.begin + i);
    batch_ = images_.index_select(0, chosen);
    target_ = labels_.index_select(0, chosen);
  }

  Result<double> Forward(trainer::StepCollectives&) override {
    if (target_.size(0) == 0) return 0.0;
    const at::Tensor scores = head_(backbone_->Forward(batch_, true));
    loss_ = at::cross_entropy_loss(scores, target_, {}, at::Reduction::Sum);
    return loss_.item<float>();
  }
  Result<void> Backward(trainer::StepCollectives&) override {
    if (target_.size(0) > 0) loss_.backward();
    return {};
  }

  trainer::Evaluation Evaluate(Share) override { return {}; }

 private:
  const trainer::DataOrder order_;
  const std::unique_ptr<Backbone> backbone_;
  trainer::Layers layers_{{.shape = {}, .seed = kClassifierSeed + 1}};
  trainer::Linear head_;
  at::Tensor images_;
  at::Tensor labels_;
  at::Tensor batch_;
  at::Tensor target_;
  at::Tensor loss_;
};

}  // namespace

const std::vector<ImageNetwork>& ImageNetworks() {
  static const std::vector<ImageNetwork> networks{
      {.name = "resnet18", .side = 32, .classes = 10, .global_batch = 32, .steps = 12},
      {.name = "iresnet18", .side = 56, .classes = 1000, .global_batch = 32, .steps = 12}};
  return networks;
}

std::unique_ptr<trainer::Workload> MakeImageClassifier(const ImageNetwork& network,
                                                       int64_t global_batch, int64_t samples) {
  return std::make_unique<ImageClassifier>(network, global_batch, samples);
}

}  // namespace ringmaster::bench
