#include "worker/trainer/gpu/kernel_shard_step.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "worker/trainer/kernels/centre_rows.h"
#include "worker/trainer/kernels/product.h"

namespace ringmaster::trainer {

using namespace partial_fc;

namespace {

// Sums over a chunk's rows have few elements, so they are computed in parts of this many rows.
constexpr int64_t kPartRows = 4096;

at::Tensor OfHost(const std::vector<int64_t>& values, at::Device device) {
  return at::tensor(values, at::kLong).to(device);
}

// Returns memory for at least `count` floats; existing contents may be lost. Allocates extra space,
// because the number of sampled classes varies and each reallocation fragments the GPU's memory.
float* Grown(at::Tensor& memory, int64_t count, at::Device device) {
  if (!memory.defined() || memory.numel() < count) {
    memory.reset();
    memory = at::empty({count + count / 32}, at::TensorOptions(at::kFloat).device(device));
  }
  return memory.data_ptr<float>();
}

}  // namespace

void CheckLaunch(int error, const char* doing) {
  TORCH_CHECK(error == 0, doing, " on the GPU: CUDA reported \"", LaunchErrorText(error), "\"");
}

KernelShardStep::KernelShardStep(KernelDevice device, int64_t chunk_rows)
    : device_(std::move(device)), chunk_rows_(chunk_rows) {}

void KernelShardStep::Begin(const HeadOptions& options, int64_t step,
                            std::span<const int64_t> labels, std::span<const float> embeddings,
                            ClassRange range) {
  dimension_ = options.dimension;
  samples_ = static_cast<int64_t>(labels.size());
  margin_ = options.margin;
  range_ = range;
  embeddings_ = embeddings.data();
  transposed_ = at::from_blob(const_cast<float*>(embeddings.data()), {samples_, dimension_},
                              at::TensorOptions(at::kFloat).device(device_.device))
                    .t()
                    .contiguous();
  std::vector<int64_t> positives;  // rows of the samples' classes in this range
  for (const int64_t label : labels) {
    if (range.contains(label)) positives.push_back(label - range.begin);
  }
  Draw(options, step, positives);
  // By sample: the index of its class among the sampled rows; -1: the class is outside the range.
  std::vector<int64_t> rows;
  for (const int64_t label : labels)
    rows.push_back(range.contains(label) ? label - range.begin : -1);
  const at::Tensor own = OfHost(rows, device_.device);
  own_ = positives.empty() ? own : at::where(own.lt(0), own, at::searchsorted(sampled_, own));
  slopes_ = at::empty({samples_}, transposed_.options());
  Grown(logits_, sampled_.numel() * samples_, device_.device);
  const int64_t chunk = std::min(chunk_rows_, sampled_.numel());
  Grown(units_, chunk * dimension_, device_.device);
  Grown(gradients_, chunk * dimension_, device_.device);
  Grown(inverse_norms_, chunk, device_.device);
}

void KernelShardStep::Draw(const HeadOptions& head, int64_t step,
                           const std::vector<int64_t>& positives) {
  const SamplingOptions& options = head.sampling;
  const at::TensorOptions here = at::TensorOptions().device(device_.device);
  coasting_ = at::empty({0}, here.dtype(at::kLong));
  if (options.rate >= 1) {
    sampled_ = at::arange(range_.size(), here.dtype(at::kLong));
    return;
  }
  at::Tensor drawn = at::empty({range_.size()}, here.dtype(at::kBool));
  CheckLaunch(LaunchDrawClasses(options.seed, step, static_cast<float>(options.rate), range_.begin,
                                drawn.data_ptr<bool>(), range_.size(), device_.stream()),
              "drawing classes");
  if (!positives.empty()) drawn.index_fill_(0, OfHost(positives, device_.device), true);
  sampled_ = at::nonzero(drawn).view({-1});
  if (head.dense_update) coasting_ = at::nonzero(drawn.logical_not()).view({-1});
}

std::vector<int64_t> KernelShardStep::sampled() const {
  const at::Tensor host = sampled_.cpu() + range_.begin;
  return {host.data_ptr<int64_t>(), host.data_ptr<int64_t>() + host.numel()};
}

template <typename Visit>
void KernelShardStep::ForEachChunk(Visit visit) {
  for (int64_t begin = 0; begin < sampled_.numel(); begin += chunk_rows_) {
    visit(Chunk{.begin = begin, .rows = std::min(chunk_rows_, sampled_.numel() - begin)});
  }
}

void KernelShardStep::ToUnitRows(const Rows& rows, const Chunk& chunk) {
  CheckLaunch(LaunchToUnits({.data = rows.values().data(),
                             .index = sampled_.data_ptr<int64_t>() + chunk.begin,
                             .step = rows.row_floats(),
                             .size = dimension_},
                            units_.data_ptr<float>(), inverse_norms_.data_ptr<float>(), chunk.rows,
                            device_.stream()),
              "normalising class centres");
}

float* KernelShardStep::LogitsOf(const Chunk& chunk) {
  return logits_.data_ptr<float>() + chunk.begin * samples_;
}

MarginTile KernelShardStep::Tile() {
  return {.values = logits_.data_ptr<float>(),
          .own = own_.data_ptr<int64_t>(),
          .slopes = slopes_.data_ptr<float>(),
          .rows = sampled_.numel(),
          .samples = samples_,
          .margin = margin_};
}

void KernelShardStep::ComputeLogits(const Rows& rows, const SoftmaxSums& sums,
                                    std::span<float> target) {
  ForEachChunk([&](const Chunk& chunk) {
    ToUnitRows(rows, chunk);
    CheckLaunch(LaunchProduct({.rows = chunk.rows,
                               .columns = samples_,
                               .inner = dimension_,
                               .left = {.data = units_.data_ptr<float>(), .row_step = dimension_},
                               .right = transposed_.data_ptr<float>(),
                               .right_step = samples_,
                               .out = LogitsOf(chunk),
                               .out_step = samples_},
                              device_.stream()),
                "computing logits");
  });
  float* memory = nullptr;
  if (!sums.sum.empty()) {
    memory = Grown(sums_, LogitSumFloats(sampled_.numel(), samples_), device_.device);
  }
  CheckLaunch(LaunchLogits(Tile(), target.data(), sums.maximum.data(), sums.sum.data(), memory,
                           device_.stream()),
              "computing logits");
}

void KernelShardStep::ComputeCoefficients(std::span<const float> maximum,
                                          std::span<const float> sum) {
  CheckLaunch(LaunchCoefficients(Tile(), maximum.data(), sum.data(), device_.stream()),
              "computing gradients of logits");
}

void KernelShardStep::AddEmbeddingGradients(const Rows& rows, std::span<float> gradients) {
  ForEachChunk([&](const Chunk& chunk) {
    ToUnitRows(rows, chunk);
    const int64_t parts = (chunk.rows + kPartRows - 1) / kPartRows;
    float* const memory = Grown(parts_, parts * samples_ * dimension_, device_.device);
    CheckLaunch(LaunchProductInParts(
                    {.rows = samples_,
                     .columns = dimension_,
                     .inner = chunk.rows,
                     .left = {.data = LogitsOf(chunk), .row_step = 1, .column_step = samples_},
                     .right = units_.data_ptr<float>(),
                     .right_step = dimension_,
                     .out = gradients.data(),
                     .out_step = dimension_,
                     .add = true},
                    static_cast<int>(parts), memory, device_.stream()),
                "computing gradients of embeddings");
  });
}

void KernelShardStep::Update(Rows& rows, const DescentRates& rates) {
  ForEachChunk([&](const Chunk& chunk) {
    ToUnitRows(rows, chunk);
    CheckLaunch(LaunchProduct({.rows = chunk.rows,
                               .columns = dimension_,
                               .inner = samples_,
                               .left = {.data = LogitsOf(chunk), .row_step = samples_},
                               .right = embeddings_,
                               .right_step = dimension_,
                               .out = gradients_.data_ptr<float>(),
                               .out_step = dimension_},
                              device_.stream()),
                "computing gradients of class centres");
    CheckLaunch(LaunchDescent({.index = sampled_.data_ptr<int64_t>() + chunk.begin,
                               .units = units_.data_ptr<float>(),
                               .inverse_norms = inverse_norms_.data_ptr<float>(),
                               .unit_gradients = gradients_.data_ptr<float>(),
                               .dimension = dimension_,
                               .gradient_scale = 1.0F / static_cast<float>(samples_),
                               .rates = rates},
                              rows.values().data(), chunk.rows, device_.stream()),
                "updating class centres");
  });
  CheckLaunch(LaunchCoast(coasting_.data_ptr<int64_t>(), dimension_, rates, rows.values().data(),
                          coasting_.numel(), device_.stream()),
              "updating class centres");
}

uint64_t KernelShardStep::Checksum(const Rows& rows) const {
  const at::Tensor sum = at::zeros({1}, sampled_.options());
  for (const at::Tensor* places : {&sampled_, &coasting_}) {
    CheckLaunch(
        LaunchRowChecksums(range_.begin, rows.row_floats(), rows.values().data(),
                           places->data_ptr<int64_t>(), static_cast<uint64_t*>(sum.data_ptr()),
                           places->numel(), device_.stream()),
        "summing up class centres");
  }
  return static_cast<uint64_t>(sum.item<int64_t>());
}

}  // namespace ringmaster::trainer
