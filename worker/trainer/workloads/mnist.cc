#include "worker/trainer/workloads/mnist.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include <c10/core/GradMode.h>

#include "worker/trainer/philox.h"

namespace ringmaster::trainer {
namespace {

constexpr int64_t kChannels1 = 10;
constexpr int64_t kChannels2 = 20;
constexpr int64_t kKernel = 5;
constexpr int64_t kFlat = kChannels2 * 4 * 4;
constexpr int64_t kHidden = 50;
constexpr int64_t kEvaluationBatch = 256;
constexpr float kMean = 0.1307F;
constexpr float kDeviation = 0.3081F;

// Uniform in ±1/sqrt(fan_in), as the examples' layers start; from (seed, layer, element) alone.
at::Tensor Uniform(uint64_t seed, uint64_t layer, at::IntArrayRef sizes, int64_t fan_in) {
  at::Tensor tensor = at::empty(sizes, at::kFloat);
  const float bound = 1.0F / std::sqrt(static_cast<float>(fan_in));
  auto* values = tensor.data_ptr<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const PhiloxBlock block = RandomBlock(seed, RandomPurpose::kInitialParameters, layer,
                                          static_cast<uint32_t>(i / 4), 0);
    values[i] = bound * (2 * UnitFloat(block.words[i % 4]) - 1);
  }
  return tensor.requires_grad_(true);
}

struct Layer {
  at::Tensor weight;
  at::Tensor bias;
};

Layer MakeLayer(uint64_t seed, uint64_t number, at::IntArrayRef sizes, int64_t fan_in) {
  return {.weight = Uniform(seed, 2 * number, sizes, fan_in),
          .bias = Uniform(seed, 2 * number + 1, {sizes[0]}, fan_in)};
}

// Grey values to the network's input.
std::array<float, 256> Normalised() {
  std::array<float, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = (static_cast<float>(i) / 255 - kMean) / kDeviation;
  return table;
}

// Two dropout masks, scaled so that the expectation stays.
struct Masks {
  at::Tensor channels;  // n × kChannels2 × 1 × 1
  at::Tensor hidden;    // n × kHidden
};

// How far an image is moved, in pixels to the right and down.
struct Shift {
  int x = 0;
  int y = 0;
};

class Mnist final : public Workload {
 public:
  Mnist(Dataset dataset, const MnistOptions& options)
      : options_(options),
        dataset_(std::move(dataset)),
        order_(options.seed, dataset_.training->size(), options.global_batch),
        conv1_(MakeLayer(options.seed, 0, {kChannels1, 1, kKernel, kKernel}, kKernel * kKernel)),
        conv2_(MakeLayer(options.seed, 1, {kChannels2, kChannels1, kKernel, kKernel},
                         kChannels1 * kKernel * kKernel)),
        linear1_(MakeLayer(options.seed, 2, {kHidden, kFlat}, kFlat)),
        linear2_(MakeLayer(options.seed, 3, {kClasses, kHidden}, kHidden)) {}

  std::string model() const override;
  std::vector<at::Tensor> parameters() override {
    return {conv1_.weight,   conv1_.bias,   conv2_.weight,   conv2_.bias,
            linear1_.weight, linear1_.bias, linear2_.weight, linear2_.bias};
  }
  const DataOrder& order() const override { return order_; }
  int64_t held_out_size() const override { return dataset_.held_out->size(); }
  uint64_t fingerprint() const override;
  void WarmUp() override;
  void Load(int64_t step, Share share) override;
  double Forward() override;
  void Backward() override { loss_.backward(); }
  Evaluation Evaluate(Share share) override;

 private:
  void Reserve(int64_t samples);
  void Fill(ImageSet& images, int64_t sample, int64_t row, Shift shift = {});
  Shift ShiftOf(int64_t step, int64_t sample) const;
  void FillMasks(int64_t step, int64_t sample, int64_t row);
  at::Tensor LogProbabilities(const at::Tensor& input, const Masks* masks) const;

  const MnistOptions options_;
  const std::array<float, 256> normalised_ = Normalised();
  Dataset dataset_;
  const DataOrder order_;
  Layer conv1_, conv2_, linear1_, linear2_;

  // Of the loaded samples; grown to the largest batch once and reused.
  int64_t reserved_ = 0;
  int64_t loaded_ = 0;
  at::Tensor input_;
  at::Tensor target_;
  Masks masks_;
  at::Tensor loss_;
};

std::string Mnist::model() const {
  std::string lines;
  const auto add = [&lines](const char* name, const at::Tensor& tensor) {
    lines += std::string(name) + " float32 [";
    for (int64_t i = 0; i < tensor.dim(); ++i) {
      lines += (i == 0 ? "" : ",") + std::to_string(tensor.size(i));
    }
    lines += "]\n";
  };
  add("conv1.weight", conv1_.weight);
  add("conv1.bias", conv1_.bias);
  add("conv2.weight", conv2_.weight);
  add("conv2.bias", conv2_.bias);
  add("linear1.weight", linear1_.weight);
  add("linear1.bias", linear1_.bias);
  add("linear2.weight", linear2_.weight);
  add("linear2.bias", linear2_.bias);
  return lines;
}

uint64_t Mnist::fingerprint() const {
  uint64_t hash = 0xcbf29ce484222325ULL;
  const auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3ULL; };
  for (const ImageSet* images : {dataset_.training.get(), dataset_.held_out.get()}) {
    add(static_cast<uint64_t>(images->size()));
    for (int64_t i = 0; i < images->size(); ++i) add(images->Label(i));
  }
  return hash;
}

void Mnist::Reserve(int64_t samples) {
  if (samples <= reserved_) return;
  reserved_ = samples;
  input_ = at::empty({samples, 1, kImageSide, kImageSide}, at::kFloat);
  target_ = at::empty({samples}, at::kLong);
  masks_ = {.channels = at::empty({samples, kChannels2, 1, 1}, at::kFloat),
            .hidden = at::empty({samples, kHidden}, at::kFloat)};
}

void Mnist::Fill(ImageSet& images, int64_t sample, int64_t row, Shift shift) {
  const uint8_t* pixels = images.Image(sample);
  float* input = input_.data_ptr<float>() + row * kImagePixels;
  if (shift.x == 0 && shift.y == 0) {
    for (int i = 0; i < kImagePixels; ++i) input[i] = normalised_[pixels[i]];
  } else {
    const auto inside = [](int at) { return at >= 0 && at < kImageSide; };
    for (int y = 0; y < kImageSide; ++y) {
      for (int x = 0; x < kImageSide; ++x) {
        const int from_y = y - shift.y;
        const int from_x = x - shift.x;
        *input++ =
            normalised_[inside(from_y) && inside(from_x) ? pixels[from_y * kImageSide + from_x]
                                                         : 0];
      }
    }
  }
  target_.data_ptr<int64_t>()[row] = images.Label(sample);
}

Shift Mnist::ShiftOf(int64_t step, int64_t sample) const {
  if (options_.max_shift == 0) return {};
  const PhiloxBlock random =
      RandomBlock(options_.seed, RandomPurpose::kShift, static_cast<uint64_t>(step),
                  static_cast<uint32_t>(sample), 0);
  const auto draw = [&](uint32_t word) {
    return static_cast<int>(UnitFloat(word) * static_cast<float>(2 * options_.max_shift + 1)) -
           options_.max_shift;
  };
  return {.x = draw(random.words[0]), .y = draw(random.words[1])};
}

void Mnist::FillMasks(int64_t step, int64_t sample, int64_t row) {
  const auto keep = static_cast<float>(1 - options_.dropout);
  PhiloxBlock block{};
  const auto fill = [&](float* mask, int64_t size, uint32_t layer) {
    for (int64_t i = 0; i < size; ++i) {
      const auto lane = (layer << 16) | static_cast<uint32_t>(i / 4);
      if (i % 4 == 0) {
        block = RandomBlock(options_.seed, RandomPurpose::kDropout, static_cast<uint64_t>(step),
                            static_cast<uint32_t>(sample), lane);
      }
      mask[i] = UnitFloat(block.words[i % 4]) < keep ? 1 / keep : 0;
    }
  };
  fill(masks_.channels.data_ptr<float>() + row * kChannels2, kChannels2, 0);
  fill(masks_.hidden.data_ptr<float>() + row * kHidden, kHidden, 1);
}

void Mnist::Load(int64_t step, Share share) {
  Reserve(share.size());
  loaded_ = share.size();
  for (int64_t row = 0; row < loaded_; ++row) {
    const int64_t sample = order_.SampleAt(step, share.begin + row);
    Fill(*dataset_.training, sample, row, ShiftOf(step, sample));
    FillMasks(step, sample, row);
  }
}

at::Tensor Mnist::LogProbabilities(const at::Tensor& input, const Masks* masks) const {
  // Pooling before the rectifier gives the same values for a quarter of the work.
  at::Tensor x = at::relu(at::max_pool2d(at::conv2d(input, conv1_.weight, conv1_.bias), 2));
  x = at::conv2d(x, conv2_.weight, conv2_.bias);
  if (masks != nullptr) x = x * masks->channels;
  x = at::relu(at::max_pool2d(x, 2)).view({-1, kFlat});
  x = at::relu(at::linear(x, linear1_.weight, linear1_.bias));
  if (masks != nullptr) x = x * masks->hidden;
  return at::log_softmax(at::linear(x, linear2_.weight, linear2_.bias), 1);
}

double Mnist::Forward() {
  if (loaded_ == 0) return 0;
  const Masks masks{.channels = masks_.channels.narrow(0, 0, loaded_),
                    .hidden = masks_.hidden.narrow(0, 0, loaded_)};
  const at::Tensor scores = LogProbabilities(input_.narrow(0, 0, loaded_), &masks);
  loss_ = at::nll_loss(scores, target_.narrow(0, 0, loaded_), {}, at::Reduction::Sum);
  return loss_.item<float>();
}

void Mnist::WarmUp() {
  Load(0, ShareOf(0, 1, std::min<int64_t>(options_.global_batch, 32)));
  Forward();
  Backward();
}

Evaluation Mnist::Evaluate(Share share) {
  const c10::AutoGradMode no_gradients(false);
  Evaluation result;
  for (int64_t begin = share.begin; begin < share.end; begin += kEvaluationBatch) {
    const int64_t samples = std::min(kEvaluationBatch, share.end - begin);
    Reserve(samples);
    for (int64_t row = 0; row < samples; ++row) Fill(*dataset_.held_out, begin + row, row);
    const at::Tensor scores = LogProbabilities(input_.narrow(0, 0, samples), nullptr);
    const at::Tensor target = target_.narrow(0, 0, samples);
    result.loss_sum += at::nll_loss(scores, target, {}, at::Reduction::Sum).item<float>();
    result.correct += scores.argmax(1).eq(target).sum().item<int64_t>();
  }
  return result;
}

}  // namespace

std::unique_ptr<Workload> MakeMnist(Dataset dataset, const MnistOptions& options) {
  return std::make_unique<Mnist>(std::move(dataset), options);
}

}  // namespace ringmaster::trainer
