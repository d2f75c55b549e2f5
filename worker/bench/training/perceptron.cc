#include "worker/bench/training/perceptron.h"

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "worker/trainer/numeric/philox.h"

namespace ringmaster::bench {
namespace {

using trainer::Share;

constexpr int64_t kHidden = 2048;
constexpr std::array<int64_t, 5> kWidths{trainer::kImagePixels, kHidden, kHidden, kHidden,
                                         trainer::kClasses};
constexpr uint64_t kSeed = 1;
constexpr int64_t kEvaluationBatch = 256;

// Uniform weights as in He's initialisation. They depend on the layer and the element only.
at::Tensor Weight(uint64_t layer, int64_t outputs, int64_t inputs) {
  at::Tensor weight = at::empty({outputs, inputs}, at::kFloat);
  const float bound = std::sqrt(6.0F / static_cast<float>(inputs));
  auto* values = weight.data_ptr<float>();
  trainer::PhiloxBlock block{};
  for (int64_t i = 0; i < weight.numel(); ++i) {
    if (i % 4 == 0) {
      block = trainer::RandomBlock(kSeed, trainer::RandomPurpose::kInitialParameters, layer,
                                   static_cast<uint32_t>(i / 4), 0);
    }
    values[i] = bound * (2 * trainer::UnitFloat(block.words[i % 4]) - 1);
  }
  return weight.requires_grad_(true);
}

class Perceptron final : public trainer::Workload {
 public:
  Perceptron(const Digits& digits, int64_t global_batch)
      : dataset_(digits.dataset()), order_(kSeed, digits.training_size(), global_batch) {
    for (std::size_t layer = 0; layer + 1 < kWidths.size(); ++layer) {
      const int64_t outputs = kWidths[layer + 1];
      parameters_.push_back(Weight(layer, outputs, kWidths[layer]));
      parameters_.push_back(at::zeros({outputs}, at::kFloat).requires_grad_(true));
    }
  }

  std::vector<at::Tensor> parameters() override { return parameters_; }
  std::string model() const override { return "perceptron float32\n"; }
  const trainer::DataOrder& order() const override { return order_; }
  int64_t held_out_size() const override { return dataset_.held_out->size(); }
  uint64_t fingerprint() const override { return 1; }

  void WarmUp() override {
    Load(0, Share{.begin = 0, .end = 1});
    trainer::LoneCollectives alone;
    static_cast<void>(Forward(alone));
    static_cast<void>(Backward(alone));
  }

  void Load(int64_t step, const trainer::MicroBatches& parts) override {
    const Share share = parts.share();
    Reserve(share.size());
    for (int64_t row = 0; row < share.size(); ++row) {
      Fill(*dataset_.training, order_.SampleAt(step, share.begin + row), row);
    }
  }

  Result<double> Forward(trainer::StepCollectives&) override {
    if (input_.size(0) == 0) return 0.0;
    loss_ = at::nll_loss(Scores(), target_, {}, at::Reduction::Sum);
    return loss_.item<float>();
  }
  Result<void> Backward(trainer::StepCollectives&) override {
    if (input_.size(0) > 0) loss_.backward();
    return {};
  }

  trainer::Evaluation Evaluate(Share share) override {
    const c10::AutoGradMode no_gradients(false);
    trainer::Evaluation result;
    for (int64_t begin = share.begin; begin < share.end; begin += kEvaluationBatch) {
      Reserve(std::min(kEvaluationBatch, share.end - begin));
      for (int64_t row = 0; row < input_.size(0); ++row) {
        Fill(*dataset_.held_out, begin + row, row);
      }
      const at::Tensor scores = Scores();
      result.loss_sum += at::nll_loss(scores, target_, {}, at::Reduction::Sum).item<float>();
      result.correct += scores.argmax(1).eq(target_).sum().item<int64_t>();
    }
    return result;
  }

 private:
  void Reserve(int64_t samples) {
    input_ = at::empty({samples, trainer::kImagePixels}, at::kFloat);
    target_ = at::empty({samples}, at::kLong);
  }
  void Fill(trainer::ImageSet& images, int64_t sample, int64_t row) {
    const uint8_t* pixels = images.Image(sample);
    float* input = input_.data_ptr<float>() + row * trainer::kImagePixels;
    for (int i = 0; i < trainer::kImagePixels; ++i) {
      input[i] = static_cast<float>(pixels[i]) / 255 - 0.13F;
    }
    target_.data_ptr<int64_t>()[row] = images.Label(sample);
  }
  at::Tensor Scores() const {
    at::Tensor x = input_;
    for (std::size_t i = 0; i < parameters_.size(); i += 2) {
      x = at::linear(i == 0 ? x : at::relu(x), parameters_[i], parameters_[i + 1]);
    }
    return at::log_softmax(x, 1);
  }

  trainer::Dataset dataset_;
  const trainer::DataOrder order_;
  std::vector<at::Tensor> parameters_;  // weight and bias of each layer in turn
  at::Tensor input_ = at::empty({0, trainer::kImagePixels}, at::kFloat);
  at::Tensor target_;
  at::Tensor loss_;
};

}  // namespace

std::unique_ptr<trainer::Workload> MakePerceptron(const Digits& digits, int64_t global_batch) {
  return std::make_unique<Perceptron>(digits, global_batch);
}

}  // namespace ringmaster::bench
