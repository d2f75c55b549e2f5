#pragma once

// Presents flat tensors as a trainable state: the tensors themselves on a CPU, and page-locked host
// copies with a mirror on a GPU.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "worker/trainer/elastic/state_mirror.h"
#include "worker/trainer/numeric/checksum.h"

namespace ringmaster::trainer {

class TensorState {
 public:
  // Refers to flat float tensors, which must all be on one device.
  explicit TensorState(std::vector<at::Tensor> tensors);
  ~TensorState();
  TensorState(const TensorState&) = delete;
  TensorState& operator=(const TensorState&) = delete;

  // Valid for the lifetime of this object.
  const TrainableState& view() const { return view_; }
  // Returns null on a CPU.
  StateMirror* mirror() const { return mirror_.get(); }

 private:
  std::vector<at::Tensor> hosts_;  // memory that `view_` refers to
  TrainableState view_;
  std::unique_ptr<StateMirror> mirror_;
};

}  // namespace ringmaster::trainer
