#include <ATen/ATen.h>

#include "worker/trainer/backbones/backbones.h"
#include "worker/trainer/backbones/layers.h"

namespace ringmaster::trainer {
namespace {

constexpr int64_t kFirstChannels = 8;
constexpr int64_t kSecondChannels = 16;
constexpr int64_t kPooledSide = 7;

class SmallNet final : public Backbone {
 public:
  explicit SmallNet(const BackboneOptions& options)
      : layers_(options),
        convolution1_(
            layers_.MakeConvolution("conv1", options.shape.channels, kFirstChannels, 3, 2)),
        prelu1_(layers_.MakePrelu("prelu1", kFirstChannels)),
        convolution2_(layers_.MakeConvolution("conv2", kFirstChannels, kSecondChannels, 3, 2)),
        prelu2_(layers_.MakePrelu("prelu2", kSecondChannels)),
        linear_(layers_.MakeLinear("fc", kSecondChannels * kPooledSide * kPooledSide,
                                   options.dimension)) {}

  const std::vector<NamedTensor>& parameters() const override { return layers_.parameters(); }
  const std::vector<NamedTensor>& averages() const override { return layers_.averages(); }

  at::Tensor Forward(const at::Tensor& images, bool /*training*/) override {
    at::Tensor x = prelu1_(convolution1_(images));
    x = prelu2_(convolution2_(x));
    x = at::adaptive_avg_pool2d(x, {kPooledSide, kPooledSide});
    return linear_(x.flatten(1));
  }

 private:
  Layers layers_;
  Convolution convolution1_;
  Prelu prelu1_;
  Convolution convolution2_;
  Prelu prelu2_;
  Linear linear_;
};

}  // namespace

std::unique_ptr<Backbone> MakeSmallNet(const BackboneOptions& options) {
  return std::make_unique<SmallNet>(options);
}

}  // namespace ringmaster::trainer
