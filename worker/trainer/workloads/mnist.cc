#include "worker/trainer/workloads/mnist.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "worker/trainer/backbones/precision_type.h"
#include "worker/trainer/data/prefetcher.h"
#include "worker/trainer/elastic_torch/buckets.h"
#include "worker/trainer/numeric/fingerprint.h"
#include "worker/trainer/numeric/philox.h"

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

// Returns uniform values in ±1/sqrt(fan_in), like PyTorch: a function of seed, layer and element.
at::Tensor Uniform(uint64_t seed, uint64_t layer, at::IntArrayRef sizes, int64_t fan_in,
                   at::Device device) {
  at::Tensor tensor = at::empty(sizes, at::kFloat);
  const float bound = 1.0F / std::sqrt(static_cast<float>(fan_in));
  auto* values = tensor.data_ptr<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const PhiloxBlock block = RandomBlock(seed, RandomPurpose::kInitialParameters, layer,
                                          static_cast<uint32_t>(i / 4), 0);
    values[i] = bound * (2 * UnitFloat(block.words[i % 4]) - 1);
  }
  return tensor.to(device).requires_grad_(true);
}

struct Layer {
  at::Tensor weight;
  at::Tensor bias;
};

Layer MakeLayer(uint64_t seed, uint64_t number, at::IntArrayRef sizes, int64_t fan_in,
                at::Device device) {
  return {.weight = Uniform(seed, 2 * number, sizes, fan_in, device),
          .bias = Uniform(seed, 2 * number + 1, {sizes[0]}, fan_in, device)};
}

// Returns a table that converts grey values to the network's input.
std::array<float, 256> Normalised() {
  std::array<float, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = (static_cast<float>(i) / 255 - kMean) / kDeviation;
  return table;
}

// Two dropout masks, scaled to preserve the expected value.
struct Masks {
  at::Tensor channels;  // n × kChannels2 × 1 × 1
  at::Tensor hidden;    // n × kHidden
};

// Samples assembled on the host. The memory grows to the size of the largest batch and is reused.
struct Samples {
  int64_t reserved = 0;
  int64_t count = 0;
  at::Tensor input;
  at::Tensor target;
  Masks masks;
};

// Samples in the network's format, on its device.
struct Batch {
  at::Tensor input;
  at::Tensor target;
  Masks masks;
};

// The shift of an image, in pixels to the right and down.
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
        device_(options.device),
        type_(TypeOf(options.precision)),
        conv1_(MakeLayer(options.seed, 0, {kChannels1, 1, kKernel, kKernel}, kKernel * kKernel,
                         device_)),
        conv2_(MakeLayer(options.seed, 1, {kChannels2, kChannels1, kKernel, kKernel},
                         kChannels1 * kKernel * kKernel, device_)),
        linear1_(MakeLayer(options.seed, 2, {kHidden, kFlat}, kFlat, device_)),
        linear2_(MakeLayer(options.seed, 3, {kClasses, kHidden}, kHidden, device_)),
        prefetcher_(
            [this](int64_t step, Share share, Samples& samples) { Assemble(step, share, samples); },
            options.constant_batch ? 0 : options.loader_threads) {}

  std::string model() const override;
  std::vector<at::Tensor> parameters() override {
    return {conv1_.weight,   conv1_.bias,   conv2_.weight,   conv2_.bias,
            linear1_.weight, linear1_.bias, linear2_.weight, linear2_.bias};
  }
  const DataOrder& order() const override { return order_; }
  int64_t held_out_size() const override { return dataset_.held_out->size(); }
  uint64_t fingerprint() const override;
  void WarmUp() override;
  void Load(int64_t step, const MicroBatches& parts) override;
  Result<double> Forward(StepCollectives&) override;
  Result<void> Backward(StepCollectives&) override;
  const at::Tensor* device_loss() const override {
    if (device_.is_cpu()) return nullptr;
    return parts_.count() == 1 ? &loss_ : &sum_;
  }
  Evaluation Evaluate(Share share) override;

 private:
  void Take(int64_t index);
  double Score(const Batch& batch);
  void ComputeGradients() const;
  Batch Send(const Samples& samples) const;
  void Reserve(int64_t count, Samples& samples) const;
  void Assemble(int64_t step, Share share, Samples& samples) const;
  void Fill(ImageSet& images, int64_t sample, int64_t row, Shift shift, Samples& samples) const;
  Shift ShiftOf(int64_t step, int64_t sample) const;
  void FillMasks(int64_t step, int64_t sample, int64_t row, Masks& masks) const;
  at::Tensor LogProbabilities(const at::Tensor& input, const Masks* masks) const;

  const MnistOptions options_;
  const std::array<float, 256> normalised_ = Normalised();
  const Dataset dataset_;
  const DataOrder order_;
  const at::Device device_;
  const at::ScalarType type_;  // type of the layers' outputs
  Layer conv1_, conv2_, linear1_, linear2_;
  // State of the current step.
  int64_t step_ = 0;
  MicroBatches parts_ = Share{};
  const Samples* loaded_ = nullptr;  // the loaded micro-batch; owned by the prefetcher
  int64_t loaded_step_ = 0;
  Share loaded_share_;
  Batch batch_;                     // the loaded samples
  at::Tensor loss_;                 // loss of the loaded samples
  at::Tensor sum_;                  // sum of the losses of several micro-batches, on a GPU
  Prefetcher<Samples> prefetcher_;  // last, because its threads use other members
};

std::string Mnist::model() const {
  std::string lines;
  const auto add = [&lines](const char* name, const at::Tensor& tensor) {
    lines += name + (" " + FormatOf(tensor)) + "\n";
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
  Fingerprint fingerprint;
  fingerprint.Add(dataset_.training->fingerprint());
  fingerprint.Add(dataset_.held_out->fingerprint());
  return fingerprint.value();
}

void Mnist::Reserve(int64_t count, Samples& samples) const {
  samples.count = count;
  if (count <= samples.reserved) return;
  samples.reserved = count;
  // Allocates page-locked memory for a GPU, so that the GPU copies it asynchronously.
  const auto memory = [&](at::IntArrayRef sizes, at::ScalarType type) {
    return at::empty(sizes, at::TensorOptions().dtype(type).pinned_memory(!device_.is_cpu()));
  };
  samples.input = memory({count, 1, kImageSide, kImageSide}, at::kFloat);
  samples.target = memory({count}, at::kLong);
  samples.masks = {.channels = memory({count, kChannels2, 1, 1}, at::kFloat),
                   .hidden = memory({count, kHidden}, at::kFloat)};
}

// Copies asynchronously. The samples may be overwritten once a result from them has been read: the
// session reads the loss of each step, and Forward() that of each micro-batch except the last.
Batch Mnist::Send(const Samples& samples) const {
  const auto part = [&](const at::Tensor& all) {
    const at::Tensor first = all.narrow(0, 0, samples.count);
    return device_.is_cpu() ? first : first.to(device_, /*non_blocking=*/true);
  };
  return {
      .input = part(samples.input),
      .target = part(samples.target),
      .masks = {.channels = part(samples.masks.channels), .hidden = part(samples.masks.hidden)}};
}

void Mnist::Fill(ImageSet& images, int64_t sample, int64_t row, Shift shift,
                 Samples& samples) const {
  const uint8_t* pixels = images.Image(sample);
  float* input = samples.input.data_ptr<float>() + row * kImagePixels;
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
  samples.target.data_ptr<int64_t>()[row] = images.Label(sample);
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

void Mnist::FillMasks(int64_t step, int64_t sample, int64_t row, Masks& masks) const {
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
  fill(masks.channels.data_ptr<float>() + row * kChannels2, kChannels2, 0);
  fill(masks.hidden.data_ptr<float>() + row * kHidden, kHidden, 1);
}

void Mnist::Load(int64_t step, const MicroBatches& parts) {
  step_ = options_.constant_batch ? 0 : step;
  parts_ = parts;
  Take(0);
}

// Loads a micro-batch unless it is already loaded: a step may be computed twice.
void Mnist::Take(int64_t index) {
  const Share samples = parts_.at(index);
  if (loaded_ != nullptr && step_ == loaded_step_ && samples.begin == loaded_share_.begin &&
      samples.end == loaded_share_.end) {
    return;
  }
  loaded_ = &prefetcher_.Take(step_, parts_, index);
  loaded_step_ = step_;
  loaded_share_ = samples;
  batch_ = loaded_->count == 0 ? Batch() : Send(*loaded_);
}

void Mnist::Assemble(int64_t step, Share share, Samples& samples) const {
  Reserve(share.size(), samples);
  for (int64_t row = 0; row < samples.count; ++row) {
    const int64_t sample = order_.SampleAt(step, share.begin + row);
    Fill(*dataset_.training, sample, row, ShiftOf(step, sample), samples);
    FillMasks(step, sample, row, samples.masks);
  }
}

at::Tensor Mnist::LogProbabilities(const at::Tensor& input, const Masks* masks) const {
  const auto narrow = [this](const at::Tensor& tensor) { return tensor.to(type_); };
  const auto convolve = [&](const at::Tensor& x, const Layer& layer) {
    return at::conv2d(narrow(x), narrow(layer.weight), narrow(layer.bias));
  };
  const auto multiply = [&](const at::Tensor& x, const Layer& layer) {
    return at::linear(narrow(x), narrow(layer.weight), narrow(layer.bias));
  };
  // Pooling before the rectifier gives the same values with a quarter of the rectifier's work.
  at::Tensor x = at::relu(at::max_pool2d(convolve(input, conv1_), 2));
  x = convolve(x, conv2_);
  if (masks != nullptr) x = x * narrow(masks->channels);
  x = at::relu(at::max_pool2d(x, 2)).view({-1, kFlat});
  x = at::relu(multiply(x, linear1_));
  if (masks != nullptr) x = x * narrow(masks->hidden);
  return at::log_softmax(multiply(x, linear2_).to(at::kFloat), 1);
}

// Returns the sum of the samples' losses. On a GPU, returns 0 and leaves the sum in loss_.
double Mnist::Score(const Batch& batch) {
  if (!batch.input.defined()) {
    loss_ = at::zeros({1}, device_);
    return 0;
  }
  const at::Tensor scores = LogProbabilities(batch.input, &batch.masks);
  loss_ = at::nll_loss(scores, batch.target, {}, at::Reduction::Sum);
  return device_.is_cpu() ? loss_.item<float>() : 0;
}

// Computes the loss; also adds up the gradients of all micro-batches except the last.
Result<double> Mnist::Forward(StepCollectives&) {
  double sum = 0;
  const int64_t last = parts_.count() - 1;
  for (int64_t index = 0; index < last; ++index) {
    Take(index);
    Score(batch_);
    ComputeGradients();
    sum += loss_.item<float>();
  }
  Take(last);
  const double loss = Score(batch_);
  if (last == 0) return loss;
  if (!device_.is_cpu()) sum_ = loss_.detach() + sum;
  return device_.is_cpu() ? sum + loss : 0;
}

Result<void> Mnist::Backward(StepCollectives&) {
  if (loaded_->count > 0) ComputeGradients();
  return {};
}

void Mnist::ComputeGradients() const {
  if (options_.loss_scale == nullptr) return loss_.backward();
  loss_.backward(options_.loss_scale->value());
}

void Mnist::WarmUp() {
  Samples samples;
  Assemble(0, ShareOf(0, 1, std::min<int64_t>(options_.global_batch, 32)), samples);
  Score(Send(samples));
  ComputeGradients();
  static_cast<void>(loss_.item<float>());  // waits until the GPU no longer reads the samples
}

Evaluation Mnist::Evaluate(Share share) {
  const c10::AutoGradMode no_gradients(false);
  Evaluation result;
  Samples samples;
  for (int64_t begin = share.begin; begin < share.end; begin += kEvaluationBatch) {
    Reserve(std::min(kEvaluationBatch, share.end - begin), samples);
    for (int64_t row = 0; row < samples.count; ++row) {
      Fill(*dataset_.held_out, begin + row, row, {}, samples);
    }
    const Batch batch = Send(samples);
    const at::Tensor scores = LogProbabilities(batch.input, nullptr);
    result.loss_sum += at::nll_loss(scores, batch.target, {}, at::Reduction::Sum).item<float>();
    result.correct += scores.argmax(1).eq(batch.target).sum().item<int64_t>();
  }
  return result;
}

}  // namespace

std::unique_ptr<Workload> MakeMnist(Dataset dataset, const MnistOptions& options) {
  return std::make_unique<Mnist>(std::move(dataset), options);
}

}  // namespace ringmaster::trainer
