#pragma once

// The factor by which the loss is multiplied, so that small gradients do not become zero in fp16.
// It grows after many steps with finite gradients. It shrinks after a step with NaN or infinite
// gradients. Such a step is skipped. The constants are those of torch.amp.GradScaler.
//
// The scale is part of the training state: all ranks see the same sums and change it in the same
// way, and a rank that joins receives it with the other state (Sgd::state()).

#include <optional>

#include <ATen/core/Tensor.h>

namespace ringmaster::trainer {

// Not thread-safe. Only Lower() waits for the device.
class LossScale {
 public:
  static constexpr double kFirst = 65536;
  static constexpr double kGrowth = 2;
  static constexpr int kGrowEvery = 2000;  // number of steps
  static constexpr double kLeast = 1;

  explicit LossScale(at::Device device);

  // The scale, as a tensor without dimensions; its value changes during training.
  const at::Tensor& value() const { return scale_; }
  // A flat tensor of all values of this object that training changes.
  const at::Tensor& state() const { return state_; }

  // Call after a step with finite gradients.
  void Applied();
  // Call after any other step. Returns the lowered scale; nothing if it was already the lowest.
  std::optional<double> Lower();

 private:
  at::Tensor state_;  // the scale, and the number of steps since it changed
  at::Tensor scale_;  // views of state_
  at::Tensor steps_;
};

}  // namespace ringmaster::trainer
