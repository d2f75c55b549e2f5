#include "worker/trainer/elastic_torch/tensor_state.h"

#include <cstddef>
#include <span>
#include <utility>

#include <ATen/ATen.h>

namespace ringmaster::trainer {
namespace {

class DeviceMirror final : public StateMirror {
 public:
  DeviceMirror(std::vector<at::Tensor> devices, std::vector<at::Tensor> hosts)
      : devices_(std::move(devices)), hosts_(std::move(hosts)) {}

  void Pull() override {
    for (std::size_t i = 0; i < devices_.size(); ++i) hosts_[i].copy_(devices_[i]);
  }
  void Push() override {
    for (std::size_t i = 0; i < devices_.size(); ++i) devices_[i].copy_(hosts_[i]);
  }

 private:
  std::vector<at::Tensor> devices_;
  std::vector<at::Tensor> hosts_;
};

}  // namespace

TensorState::TensorState(std::vector<at::Tensor> tensors) : hosts_(tensors) {
  if (!tensors.empty() && !tensors.front().is_cpu()) {
    for (at::Tensor& host : hosts_) {
      host = at::empty({host.numel()}, at::TensorOptions().dtype(at::kFloat).pinned_memory(true));
    }
    mirror_ = std::make_unique<DeviceMirror>(std::move(tensors), hosts_);
  }
  for (const at::Tensor& host : hosts_) {
    view_.emplace_back(host.data_ptr<float>(), static_cast<std::size_t>(host.numel()));
  }
}

TensorState::~TensorState() = default;

}  // namespace ringmaster::trainer
