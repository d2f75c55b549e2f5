#include "worker/trainer/elastic_torch/buckets.h"

#include <span>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "worker/trainer/numeric/alignment.h"

namespace ringmaster::trainer {

struct Buckets::State {
  std::vector<at::Tensor> parameters;
  at::Tensor flat_parameters;
  at::Tensor memory;     // gradients, then scalars, then the value of `verdict`
  at::Tensor gradients;  // a view of `memory`: the gradients
  at::Tensor scalars;    // a view of `memory`: the scalars
  at::Tensor verdict;    // a view of `memory`: ToMeans() sets it to 0 if all gradients are finite
  int64_t averages = 0;  // number of values of averages at the end of `gradients`
  at::Tensor factors;    // device memory: 1 / samples for weights, 1 for averages

  std::vector<at::Tensor> homes;   // the data of each parameter, in `flat_parameters`
  std::vector<at::Tensor> pieces;  // the gradient of each parameter, in `memory`

  std::vector<int64_t> ends;   // end of each bucket, in elements of `memory` without the scalars
  std::vector<int> sizes;      // number of parameters in each bucket
  std::vector<int> bucket_of;  // bucket of each parameter

  // Used while the buckets are armed.
  std::vector<int> missing;  // number of missing gradients, by bucket
  int overfilled = -1;       // a parameter whose bucket was complete before its last gradient
  int next = 0;              // the first bucket for which on_ready has not been called
  std::function<void(int)> on_ready;

  // Without this, a gradient that autograd has allocated would not be reduced.
  void TakeIn(std::size_t parameter, bool add) {
    at::Tensor& gradient = parameters[parameter].mutable_grad();
    if (gradient.is_same(pieces[parameter])) return;
    if (add && gradient.defined()) {
      const at::NoGradGuard no_graph;
      pieces[parameter].add_(gradient);
    }
    gradient = pieces[parameter];
  }

  void Ready(std::size_t parameter) {
    if (!on_ready) return;
    TakeIn(parameter, /*add=*/true);
    if (--missing[static_cast<std::size_t>(bucket_of[parameter])] < 0) {
      overfilled = static_cast<int>(parameter);
    }
    while (next < static_cast<int>(missing.size()) && missing[static_cast<std::size_t>(next)] == 0)
      on_ready(next++);
  }
};

// Runs after a parameter's gradient was accumulated.
class Buckets::Hook final : public torch::autograd::FunctionPostHook {
 public:
  Hook(std::weak_ptr<State> state, std::size_t parameter)
      : state_(std::move(state)), parameter_(parameter) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    if (const auto state = state_.lock()) state->Ready(parameter_);
    return outputs;
  }

 private:
  const std::weak_ptr<State> state_;
  const std::size_t parameter_;
};

namespace {

// The place of each parameter in flat memory. Parameters are in reverse order. A bucket is closed
// once it is big enough, but all averages are in the last bucket.
struct Layout {
  std::vector<int64_t> offsets;  // offset of each parameter
  std::vector<int> bucket_of;    // bucket of each parameter
  std::vector<int64_t> ends;
  std::vector<int> sizes;
  int64_t total = 0;
};

Layout LayOut(const std::vector<at::Tensor>& parameters, const BucketOptions& options) {
  Layout layout{.offsets = std::vector<int64_t>(parameters.size()),
                .bucket_of = std::vector<int>(parameters.size()),
                .ends = {},
                .sizes = {}};
  int64_t begin = 0;
  int members = 0;
  int64_t left = 0;  // number of values that are not in a bucket yet
  for (const at::Tensor& parameter : parameters) left += AlignedCount(parameter.numel());
  const auto close = [&] {
    layout.ends.push_back(layout.total);
    layout.sizes.push_back(members);
    begin = layout.total;
    members = 0;
  };
  for (std::size_t i = parameters.size(); i-- > 0;) {
    layout.offsets[i] = layout.total;
    layout.bucket_of[i] = static_cast<int>(layout.ends.size());
    const int64_t room = AlignedCount(parameters[i].numel());
    layout.total += room;
    left -= room;
    ++members;
    const int64_t limit = layout.ends.empty() ? options.first_bytes : options.bytes;
    const bool full = (layout.total - begin) * static_cast<int64_t>(sizeof(float)) >= limit;
    if (full && left > options.averages) close();
  }
  if (members > 0) close();
  return layout;
}

at::Tensor Zeros(int64_t count, const at::TensorOptions& kind, const GradientMemory& memory) {
  void* const place = memory ? memory(static_cast<std::size_t>(count) * sizeof(float)) : nullptr;
  if (place == nullptr) return at::zeros({count}, kind);
  return at::from_blob(place, {count}, kind).zero_();
}

// Returns the strides of a parameter in flat memory: its own if it has no gaps.
std::vector<int64_t> StridesOf(const at::Tensor& parameter) {
  if (parameter.is_non_overlapping_and_dense()) return parameter.strides().vec();
  return c10::IntArrayRef(c10::contiguous_strides(parameter.sizes())).vec();
}

std::string ListOf(at::IntArrayRef numbers) {
  std::string list;
  for (const int64_t number : numbers) list += (list.empty() ? "" : ",") + std::to_string(number);
  return "[" + list + "]";
}

}  // namespace

std::string FormatOf(const at::Tensor& parameter) {
  std::string text = "float32 " + ListOf(parameter.sizes());
  if (parameter.is_contiguous() || !parameter.is_non_overlapping_and_dense()) return text;
  return text + " with strides " + ListOf(parameter.strides());
}

Buckets::Buckets(std::vector<at::Tensor> parameters, const BucketOptions& options,
                 const GradientMemory& memory)
    : state_(std::make_shared<State>()) {
  Layout layout = LayOut(parameters, options);
  const at::TensorOptions kind =
      at::TensorOptions()
          .dtype(at::kFloat)
          .device(parameters.empty() ? at::Device(at::kCPU) : parameters.front().device());
  state_->flat_parameters = at::zeros({layout.total}, kind);
  state_->memory = Zeros(layout.total + options.scalars + 1, kind, memory);
  state_->gradients = state_->memory.narrow(0, 0, layout.total);
  state_->scalars = state_->memory.narrow(0, layout.total, options.scalars);
  state_->verdict = state_->memory.narrow(0, layout.total + options.scalars, 1);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor& parameter = parameters[i];
    const std::vector<int64_t> strides = StridesOf(parameter);
    const auto part = [&](const at::Tensor& flat) {
      return flat.as_strided(parameter.sizes(), strides, layout.offsets[i]);
    };
    const at::Tensor home = part(state_->flat_parameters);
    home.copy_(parameter.detach());
    parameter.set_data(home);
    state_->homes.push_back(home);
    // To autograd, this tensor is not a view, because zero_grad(false) detaches gradients in place.
    parameter.mutable_grad() = state_->pieces.emplace_back(part(state_->memory).variable_data());
    // The parameter has only a weak reference to its accumulator. This list keeps the accumulator,
    // and thus the hook, alive.
    auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
    accumulator->add_post_hook(std::make_unique<Hook>(state_, i));
    // The pointer's type depends on the version of LibTorch; shared_ptr<void> accepts any.
    accumulators_.push_back(std::make_shared<decltype(accumulator)>(std::move(accumulator)));
  }
  state_->averages = options.averages;
  state_->parameters = std::move(parameters);
  state_->ends = std::move(layout.ends);
  state_->sizes = std::move(layout.sizes);
  state_->bucket_of = std::move(layout.bucket_of);
}

Buckets::~Buckets() = default;

int Buckets::count() const { return static_cast<int>(state_->ends.size()); }

Elements Buckets::Bucket(int index) {
  const auto i = static_cast<std::size_t>(index);
  const int64_t begin = i == 0 ? 0 : state_->ends[i - 1];
  const int64_t end = state_->ends[i] + (index + 1 == count() ? state_->scalars.numel() : 0);
  return std::span<float>(state_->memory.data_ptr<float>() + begin,
                          static_cast<std::size_t>(end - begin));
}

std::size_t Buckets::exact_count(int index) const {
  if (index + 1 != count()) return 0;
  return static_cast<std::size_t>(state_->averages + state_->scalars.numel());
}

std::vector<std::size_t> Buckets::gradient_counts() {
  std::vector<std::size_t> counts;
  for (int i = 0; i < count(); ++i) counts.push_back(Bucket(i).count - exact_count(i));
  return counts;
}

void Buckets::SetScalar(int64_t index, double value) {
  if (state_->scalars.is_cpu()) {
    state_->scalars.data_ptr<float>()[index] = static_cast<float>(value);
  } else {
    state_->scalars.narrow(0, index, 1).fill_(value);
  }
}

void Buckets::SetScalar(int64_t index, const at::Tensor& value) {
  state_->scalars.narrow(0, index, 1).copy_(value.detach().view({1}), /*non_blocking=*/true);
}

Buckets::Means Buckets::ToMeans(int64_t samples) {
  State& state = *state_;
  const int64_t weights = state.gradients.numel() - state.averages;
  const int64_t scalars = state.scalars.numel();
  if (!state.factors.defined()) {
    const auto factor = static_cast<float>(1.0 / static_cast<double>(samples));
    state.factors = at::tensor({factor, 1.0F}).to(state.memory.device());
  }
  ScaleAndCheck(state.gradients, weights, state.factors, state.verdict);
  const at::Tensor host = state.memory.narrow(0, state.gradients.numel(), scalars + 1).cpu();
  const auto* values = host.data_ptr<float>();
  return {.scalars = {values, values + scalars}, .finite = values[scalars] == 0};
}

void ScaleAndCheck(const at::Tensor& values, int64_t scaled, const at::Tensor& factors,
                   at::Tensor& not_finite) {
  const auto part = [&](int64_t begin, int64_t end, int64_t factor) {
    if (begin == end) return;
    at::_amp_foreach_non_finite_check_and_unscale_({values.narrow(0, begin, end - begin)},
                                                   not_finite, factors.narrow(0, factor, 1));
  };
  part(0, scaled, 0);
  part(scaled, values.numel(), 1);
}

const at::Tensor& Buckets::flat_parameters() const { return state_->flat_parameters; }

const at::Tensor& Buckets::flat_gradients() const { return state_->gradients; }

void Buckets::Arm(std::function<void(int index)> on_ready) {
  state_->memory.zero_();
  for (std::size_t i = 0; i < state_->pieces.size(); ++i) state_->TakeIn(i, /*add=*/false);
  state_->missing = state_->sizes;
  state_->overfilled = -1;
  state_->next = 0;
  state_->on_ready = std::move(on_ready);
}

void Buckets::ExpectAnotherBackward() {
  for (std::size_t bucket = 0; bucket < state_->missing.size(); ++bucket) {
    state_->missing[bucket] += state_->sizes[bucket];
  }
}

int Buckets::FirstNotFinite() const {
  for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
    if (!at::isfinite(state_->pieces[i]).all().item<bool>()) return static_cast<int>(i);
  }
  return -1;
}

void Buckets::Flush() {
  while (state_->next < count()) state_->on_ready(state_->next++);
  state_->on_ready = nullptr;
  for (std::size_t i = 0; i < state_->pieces.size(); ++i) state_->TakeIn(i, /*add=*/false);
}

std::string Buckets::Misuse() const {
  std::size_t first = 0;  // the first parameter after the averages
  for (int64_t room = 0; room < state_->averages; ++first) {
    room += AlignedCount(state_->parameters[first].numel());
  }
  for (std::size_t i = 0; i < state_->homes.size(); ++i) {
    if (state_->parameters[i].data_ptr() == state_->homes[i].data_ptr()) continue;
    return "the data of parameter " + std::to_string(i - first) +
           " was replaced, as torch::load() and Module::to() do; load and move the model before "
           "training starts, or copy values into the parameter";
  }
  if (state_->overfilled < 0) return "";
  return "parameter " + std::to_string(static_cast<std::size_t>(state_->overfilled) - first) +
         " got another gradient while its gradient was being reduced; pass each loss to Backward() "
         "or BackwardAndReduce(), and call no other backward()";
}

}  // namespace ringmaster::trainer
