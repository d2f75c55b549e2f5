#include "worker/trainer/workloads/partial_fc.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "worker/trainer/backbones/backbone.h"
#include "worker/trainer/data/prefetcher.h"
#include "worker/trainer/elastic_torch/buckets.h"
#include "worker/trainer/numeric/alignment.h"
#include "worker/trainer/numeric/fingerprint.h"
#include "worker/trainer/partial_fc/head.h"

namespace ringmaster::trainer {
namespace {

constexpr int64_t kTripletsAtOnce = 16;

using Triplet = std::array<int64_t, 3>;  // an image, another of its class, one of another class

// Returns a triplet for each image: itself, the next image of its class and the next image of
// another class, cyclically. Images that are alone in their class do not have a triplet.
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

// The images of this rank's share of a step, and the labels of the whole batch.
struct StepImages {
  at::Tensor images{};  // in host memory; has room for the largest share so far
  int64_t count = 0;
  std::vector<int64_t> labels{};
};

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
                                                   .global_batch = options_.global_batch,
                                                   .precision = options_.precision,
                                                   .device = device_})),
        table_(options_.table),
        triplets_(TripletsOf(*data_.held_out)),
        prefetcher_([this](int64_t step, Share share,
                           StepImages& samples) { Assemble(step, share, samples); },
                    options_.loader_threads) {}

  std::vector<at::Tensor> parameters() override {
    std::vector<at::Tensor> all;
    for (const NamedTensor& average : backbone_->averages()) all.push_back(average.tensor);
    for (const NamedTensor& parameter : backbone_->parameters()) all.push_back(parameter.tensor);
    return all;
  }
  int64_t averages() const override {
    int64_t room = 0;
    for (const NamedTensor& average : backbone_->averages()) {
      room += AlignedCount(average.tensor.numel());
    }
    return room;
  }
  ShardedState* sharded() override { return &table_; }
  std::string model() const override;
  const DataOrder& order() const override { return order_; }
  int64_t held_out_size() const override { return static_cast<int64_t>(triplets_.size()); }
  uint64_t fingerprint() const override;
  void WarmUp() override;
  void Load(int64_t step, const MicroBatches& parts) override;
  Result<double> Forward(StepCollectives& others) override;
  Result<void> Backward(StepCollectives& others) override;
  Evaluation Evaluate(Share share) override;

 private:
  void Assemble(int64_t step, Share share, StepImages& samples) const;
  at::Tensor RoomFor(int64_t count, at::Tensor& room) const;
  at::Tensor Embed(Share samples);
  at::Tensor EmbedAhead();

  const PartialFcOptions options_;
  LabelledData data_;
  const at::Device device_;
  const DataOrder order_;
  const std::unique_ptr<Backbone> backbone_;
  partial_fc::CentreTable table_;
  partial_fc::Head head_{table_};
  const std::vector<Triplet> triplets_;

  // State of the current step.
  int64_t step_ = 0;
  MicroBatches parts_ = Share{};
  const StepImages* loaded_ = nullptr;  // owned by the prefetcher
  at::Tensor embeddings_;
  Prefetcher<StepImages> prefetcher_;  // last, because its threads use other members
};

std::string PartialFc::model() const {
  std::string lines;
  const auto add = [&lines](const NamedTensor& named) {
    lines += named.name + " " + FormatOf(named.tensor) + "\n";
  };
  for (const NamedTensor& average : backbone_->averages()) add(average);
  for (const NamedTensor& parameter : backbone_->parameters()) add(parameter);
  return lines + "centres float32 [" + std::to_string(options_.table.head.classes) + "," +
         std::to_string(options_.table.head.dimension) + "]\n";
}

uint64_t PartialFc::fingerprint() const {
  Fingerprint fingerprint;
  fingerprint.Add(data_.training->fingerprint());
  fingerprint.Add(data_.held_out->fingerprint());
  return fingerprint.value();
}

// Returns memory for `count` images, page-locked for a GPU, so that copies are asynchronous.
at::Tensor PartialFc::RoomFor(int64_t count, at::Tensor& room) const {
  const ImageShape shape = data_.training->shape();
  if (!room.defined() || room.size(0) < count) {
    room = at::empty({count, shape.channels, shape.side, shape.side},
                     at::TensorOptions(at::kFloat).pinned_memory(!device_.is_cpu()));
  }
  return room.narrow(0, 0, count);
}

void PartialFc::Assemble(int64_t step, Share share, StepImages& samples) const {
  samples.labels.clear();
  for (int64_t i = 0; i < options_.global_batch; ++i) {
    samples.labels.push_back(data_.training->Label(order_.SampleAt(step, i)));
  }
  samples.count = share.size();
  float* const values = RoomFor(share.size(), samples.images).data_ptr<float>();
  for (int64_t i = 0; i < share.size(); ++i) {
    data_.training->Fill(order_.SampleAt(step, share.begin + i),
                         values + i * data_.training->shape().values());
  }
}

void PartialFc::Load(int64_t step, const MicroBatches& parts) {
  step_ = step;
  parts_ = parts;
  loaded_ = &prefetcher_.Take(step, parts.share());
}

// Returns the embeddings of `samples`, which must be in the loaded share.
at::Tensor PartialFc::Embed(Share samples) {
  const at::Tensor images =
      loaded_->images.narrow(0, samples.begin - parts_.share().begin, samples.size());
  return backbone_->Forward(images.to(device_, /*non_blocking=*/true), true);
}

// Computes all embeddings, which the head needs before the first backward pass. Does not keep the
// activations of all micro-batches: Backward() computes each micro-batch again.
at::Tensor PartialFc::EmbedAhead() {
  const c10::AutoGradMode no_gradients(false);
  const Share share = parts_.share();
  at::Tensor all = at::empty({share.size(), options_.table.head.dimension},
                             at::TensorOptions(at::kFloat).device(device_));
  if (share.size() == 0) return all;
  for (int64_t index = 0; index < parts_.count(); ++index) {
    const Share part = parts_.at(index);
    all.narrow(0, part.begin - share.begin, part.size()).copy_(Embed(part));
  }
  return all;
}

// Afterwards, the samples may be overwritten: the head has read sums of all their embeddings.
Result<double> PartialFc::Forward(StepCollectives& others) {
  const Share share = parts_.share();
  const bool whole = share.size() > 0 && parts_.count() == 1;
  embeddings_ = whole ? Embed(share).contiguous() : EmbedAhead();
  const std::span<const float> values(embeddings_.data_ptr<float>(),
                                      static_cast<std::size_t>(embeddings_.numel()));
  return head_.Forward(step_, loaded_->labels, share, values, others);
}

Result<void> PartialFc::Backward(StepCollectives& others) {
  at::Tensor gradient = at::empty(embeddings_.sizes(), embeddings_.options());
  Result<void> done = head_.Backward(
      {gradient.data_ptr<float>(), static_cast<std::size_t>(gradient.numel())}, others);
  if (!done.ok() || parts_.share().size() == 0) return done;
  if (parts_.count() == 1) {
    embeddings_.backward(gradient);
    return done;
  }
  for (int64_t index = 0; index < parts_.count(); ++index) {
    const Share part = parts_.at(index);
    const int64_t first = part.begin - parts_.share().begin;
    Embed(part).backward(gradient.narrow(0, first, part.size()));
  }
  return done;
}

// Runs only the backbone, because class centres do not exist before the first world.
void PartialFc::WarmUp() {
  StepImages samples;
  Assemble(0, ShareOf(0, 1, std::min<int64_t>(options_.global_batch, 2)), samples);
  const at::Tensor embeddings = backbone_->Forward(samples.images.to(device_), true);
  embeddings.backward(at::zeros_like(embeddings));
}

Evaluation PartialFc::Evaluate(Share share) {
  const c10::AutoGradMode no_gradients(false);
  const int64_t values = data_.held_out->shape().values();
  Evaluation result;
  at::Tensor room;
  for (int64_t begin = share.begin; begin < share.end; begin += kTripletsAtOnce) {
    const int64_t count = std::min(kTripletsAtOnce, share.end - begin);
    const at::Tensor images = RoomFor(3 * count, room);
    for (int64_t i = 0; i < 3 * count; ++i) {
      const Triplet& triplet = triplets_[static_cast<std::size_t>(begin + i / 3)];
      data_.held_out->Fill(triplet[static_cast<std::size_t>(i % 3)],
                           images.data_ptr<float>() + i * values);
    }
    const at::Tensor embeddings =
        backbone_->Forward(images.to(device_), false).view({count, 3, -1});
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
