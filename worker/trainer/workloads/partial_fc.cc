#include "worker/trainer/workloads/partial_fc.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <c10/core/GradMode.h>

#include "worker/trainer/backbones/backbone.h"
#include "worker/trainer/fingerprint.h"
#include "worker/trainer/partial_fc/head.h"

namespace ringmaster::trainer {
namespace {

constexpr int64_t kTripletsAtOnce = 16;

using Triplet = std::array<int64_t, 3>;  // an image, another one of its class, one of another class

// For each image the next one of its class and the next one of another, in a circle; images that
// are alone in their class have none.
std::vector<Triplet> TripletsOf(const LabelledImages& images) {
  std::vector<Triplet> triplets;
  std::map<int64_t, std::vector<int64_t>> of_class;
  for (int64_t i = 0; i < images.size(); ++i) of_class[images.Label(i)].push_back(i);
  if (of_class.size() < 2) return triplets;
  for (const auto& [label, members] : of_class) {
    if (members.size() < 2) continue;
    for (std::size_t i = 0; i < members.size(); ++i) {
      int64_t other = (members[i] + 1) % images.size();
      while (images.Label(other) == label) other = (other + 1) % images.size();
      triplets.push_back({members[i], members[(i + 1) % members.size()], other});
    }
  }
  std::ranges::sort(triplets);
  return triplets;
}

class PartialFc final : public Workload {
 public:
  PartialFc(LabelledData data, PartialFcOptions options)
      : options_(std::move(options)),
        data_(std::move(data)),
        device_(options_.device),
        order_(options_.seed, data_.training->size(), options_.global_batch),
        backbone_(MakeBackbone(options_.backbone, {.shape = data_.training->shape(),
                                                   .dimension = options_.table.head.dimension,
                                                   .seed = options_.seed,
                                                   .precision = options_.precision,
                                                   .device = device_})),
        table_(options_.table),
        triplets_(TripletsOf(*data_.held_out)) {}

  std::vector<at::Tensor> parameters() override {
    std::vector<at::Tensor> all;
    for (const NamedTensor& average : backbone_->averages()) all.push_back(average.tensor);
    for (const NamedTensor& parameter : backbone_->parameters()) all.push_back(parameter.tensor);
    return all;
  }
  int64_t averages() const override {
    int64_t values = 0;
    for (const NamedTensor& average : backbone_->averages()) values += average.tensor.numel();
    return values;
  }
  ShardedState* sharded() override { return &table_; }
  std::string model() const override;
  const DataOrder& order() const override { return order_; }
  int64_t held_out_size() const override { return static_cast<int64_t>(triplets_.size()); }
  uint64_t fingerprint() const override;
  void WarmUp() override;
  void Load(int64_t step, Share share) override;
  Result<double> Forward(StepCollectives& others) override;
  Result<void> Backward(StepCollectives& others) override;
  Evaluation Evaluate(Share share) override;

 private:
  at::Tensor Images(int64_t count);
  at::Tensor OnDevice(const at::Tensor& images) const { return images.to(device_); }

  const PartialFcOptions options_;
  LabelledData data_;
  const at::Device device_;
  const DataOrder order_;
  const std::unique_ptr<Backbone> backbone_;
  partial_fc::CentreTable table_;
  partial_fc::Head head_{table_};
  const std::vector<Triplet> triplets_;

  // Of the step under way.
  int64_t step_ = 0;
  Share share_;
  std::vector<int64_t> labels_;  // of the global batch
  at::Tensor room_;              // for images, on the host; grown once and reused
  at::Tensor images_;
  at::Tensor embeddings_;
};

std::string PartialFc::model() const {
  std::string lines;
  const auto add = [&lines](const NamedTensor& named) {
    lines += named.name + " float32 [";
    for (int64_t i = 0; i < named.tensor.dim(); ++i) {
      lines += (i == 0 ? "" : ",") + std::to_string(named.tensor.size(i));
    }
    lines += "]\n";
  };
  for (const NamedTensor& average : backbone_->averages()) add(average);
  for (const NamedTensor& parameter : backbone_->parameters()) add(parameter);
  return lines + "centres float32 [" + std::to_string(options_.table.head.classes) + "," +
         std::to_string(options_.table.head.dimension) + "]\n";
}

uint64_t PartialFc::fingerprint() const {
  Fingerprint fingerprint;
  fingerprint.AddLabels(*data_.training);
  fingerprint.AddLabels(*data_.held_out);
  return fingerprint.value();
}

at::Tensor PartialFc::Images(int64_t count) {
  const ImageShape shape = data_.training->shape();
  if (!room_.defined() || room_.size(0) < count) {
    room_ = at::empty({count, shape.channels, shape.side, shape.side},
                      at::TensorOptions(at::kFloat).pinned_memory(!device_.is_cpu()));
  }
  return room_.narrow(0, 0, count);
}

void PartialFc::Load(int64_t step, Share share) {
  step_ = step;
  share_ = share;
  labels_.clear();
  for (int64_t i = 0; i < options_.global_batch; ++i) {
    labels_.push_back(data_.training->Label(order_.SampleAt(step, i)));
  }
  images_ = Images(share.size());
  const int64_t values = data_.training->shape().values();
  for (int64_t i = 0; i < share.size(); ++i) {
    data_.training->Fill(order_.SampleAt(step, share.begin + i),
                         images_.data_ptr<float>() + i * values);
  }
}

Result<double> PartialFc::Forward(StepCollectives& others) {
  embeddings_ = share_.size() > 0 ? backbone_->Forward(OnDevice(images_), true).contiguous()
                                  : at::empty({0, options_.table.head.dimension},
                                              at::TensorOptions(at::kFloat).device(device_));
  const std::span<const float> values(embeddings_.data_ptr<float>(),
                                      static_cast<std::size_t>(embeddings_.numel()));
  return head_.Forward(step_, labels_, share_, values, others);
}

Result<void> PartialFc::Backward(StepCollectives& others) {
  at::Tensor gradient = at::empty(embeddings_.sizes(), embeddings_.options());
  Result<void> done = head_.Backward(
      {gradient.data_ptr<float>(), static_cast<std::size_t>(gradient.numel())}, others);
  if (done.ok() && share_.size() > 0) embeddings_.backward(gradient);
  return done;
}

// The backbone alone: rows of centres come with the first world.
void PartialFc::WarmUp() {
  Load(0, ShareOf(0, 1, std::min<int64_t>(options_.global_batch, 2)));
  embeddings_ = backbone_->Forward(OnDevice(images_), true);
  embeddings_.backward(at::zeros_like(embeddings_));
}

Evaluation PartialFc::Evaluate(Share share) {
  const c10::AutoGradMode no_gradients(false);
  const int64_t values = data_.held_out->shape().values();
  Evaluation result;
  for (int64_t begin = share.begin; begin < share.end; begin += kTripletsAtOnce) {
    const int64_t count = std::min(kTripletsAtOnce, share.end - begin);
    const at::Tensor images = Images(3 * count);
    for (int64_t i = 0; i < 3 * count; ++i) {
      const Triplet& triplet = triplets_[static_cast<std::size_t>(begin + i / 3)];
      data_.held_out->Fill(triplet[static_cast<std::size_t>(i % 3)],
                           images.data_ptr<float>() + i * values);
    }
    const at::Tensor embeddings = backbone_->Forward(OnDevice(images), false).view({count, 3, -1});
    const at::Tensor first = embeddings.select(1, 0);
    const at::Tensor same = at::cosine_similarity(first, embeddings.select(1, 1));
    const at::Tensor other = at::cosine_similarity(first, embeddings.select(1, 2));
    result.correct += same.gt(other).sum().item<int64_t>();
  }
  return result;
}

}  // namespace

std::unique_ptr<Workload> MakePartialFc(LabelledData data, PartialFcOptions options) {
  options.table.head.classes = data.classes;
  return std::make_unique<PartialFc>(std::move(data), std::move(options));
}

}  // namespace ringmaster::trainer
