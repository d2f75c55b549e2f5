#include "worker/trainer/batch_norm/batch_norm.h"

#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

namespace ringmaster::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

StoredType StoredTypeOf(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return StoredType::kFloat16;
    case at::kBFloat16:
      return StoredType::kBFloat16;
    default:
      return StoredType::kFloat;
  }
}

NormRows RowsOf(const at::Tensor& x) {
  return {
      .type = StoredTypeOf(x.scalar_type()), .rows = x.numel() / x.size(1), .channels = x.size(1)};
}

// Returns a tensor in which the channels of a pixel are adjacent.
at::Tensor AsRows(const at::Tensor& x) {
  return x.contiguous(x.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
}

at::Tensor Floats(int64_t count, const at::Tensor& like) {
  return at::empty({count}, like.options().dtype(at::kFloat));
}

float* MemoryOf(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}

NormParameters ParametersOf(const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& slope, const at::Tensor& statistics) {
  const int64_t channels = weight.numel();
  return {.weight = MemoryOf(weight),
          .bias = MemoryOf(bias),
          .slope = MemoryOf(slope),
          .mean = MemoryOf(statistics),
          .inverse = MemoryOf(statistics) + channels};
}

// The values saved for the backward pass.
struct SavedArithmetic final : torch::CustomClassHolder {
  std::shared_ptr<const NormArithmetic> arithmetic;
};

class BatchNormFunction final : public torch::autograd::Function<BatchNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const std::optional<at::Tensor>& prelu,
                            const std::optional<at::Tensor>& shortcut,
                            const std::shared_ptr<const NormArithmetic>& arithmetic,
                            const BatchNormLayer& layer) {
    const at::Tensor x = AsRows(input);
    const NormRows rows = RowsOf(x);
    const at::Tensor statistics = Floats(2 * rows.channels, x);  // means, then inverse deviations
    const at::Tensor scratch = Floats(arithmetic->Scratch(rows), x);
    arithmetic->Statistics(rows, x.const_data_ptr(), MemoryOf(scratch),
                           {.mean = MemoryOf(statistics),
                            .inverse = MemoryOf(statistics) + rows.channels,
                            .running_mean = MemoryOf(layer.running_mean),
                            .running_variance = MemoryOf(layer.running_variance),
                            .share = static_cast<float>(layer.share),
                            .epsilon = static_cast<float>(layer.epsilon)});
    const at::Tensor slope = prelu.value_or(at::Tensor());
    const at::Tensor added = shortcut ? AsRows(*shortcut) : at::Tensor();
    at::Tensor y = at::empty_like(x);
    arithmetic->Normalise(rows, ParametersOf(weight, bias, slope, statistics), x.const_data_ptr(),
                          shortcut ? added.const_data_ptr() : nullptr, y.mutable_data_ptr());
    context->save_for_backward({x, weight, bias, slope, statistics});
    auto saved = c10::make_intrusive<SavedArithmetic>();
    saved->arithmetic = arithmetic;
    context->saved_data["arithmetic"] = at::IValue::make_capsule(std::move(saved));
    context->saved_data["shortcut"] = shortcut.has_value();
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &slope = saved[3];
    const NormArithmetic& arithmetic = *c10::static_intrusive_pointer_cast<SavedArithmetic>(
                                            context->saved_data["arithmetic"].toCapsule())
                                            ->arithmetic;
    const NormRows rows = RowsOf(x);
    const at::Tensor y_gradient = AsRows(gradients[0]);
    at::Tensor x_gradient = at::empty_like(x);
    const at::Tensor of_weight = Floats(rows.channels, x);
    const at::Tensor of_bias = Floats(rows.channels, x);
    const at::Tensor of_slope = slope.defined() ? Floats(rows.channels, x) : at::Tensor();
    const at::Tensor scratch = Floats(arithmetic.Scratch(rows), x);
    arithmetic.Backward(
        rows, ParametersOf(weight, bias, slope, saved[4]), x.const_data_ptr(),
        y_gradient.const_data_ptr(), MemoryOf(scratch),
        {.weight = MemoryOf(of_weight), .bias = MemoryOf(of_bias), .slope = MemoryOf(of_slope)},
        x_gradient.mutable_data_ptr());
    const bool shortcut = context->saved_data["shortcut"].toBool();
    return {x_gradient, of_weight, of_bias, of_slope, shortcut ? y_gradient : at::Tensor(), {}, {}};
  }
};

}  // namespace

at::Tensor BatchNormalise(std::shared_ptr<const NormArithmetic> arithmetic, const at::Tensor& x,
                          const BatchNormLayer& layer, const at::Tensor& slope,
                          const at::Tensor& shortcut) {
  // LibTorch does not accept an undefined tensor here.
  const auto if_defined = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor) : std::nullopt;
  };
  return BatchNormFunction::apply(x, layer.weight, layer.bias, if_defined(slope),
                                  if_defined(shortcut), std::move(arithmetic), layer);
}

}  // namespace ringmaster::trainer
