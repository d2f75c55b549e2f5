#include "worker/trainer/library/buffer_means.h"

#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace ringmaster {

BufferMeans::BufferMeans(const std::vector<at::Tensor>& buffers) : buffers_(buffers) {
  for (const at::Tensor& buffer : buffers_) {
    means_.push_back(buffer.detach().clone().set_requires_grad(true));
  }
}

Result<void> BufferMeans::Check() const {
  for (std::size_t i = 0; i < means_.size(); ++i) {
    const at::Tensor& buffer = buffers_[i];
    const at::Tensor& mean = means_[i];
    if (buffer.sizes() == mean.sizes() && buffer.scalar_type() == mean.scalar_type() &&
        buffer.device() == mean.device()) {
      continue;
    }
    return Error{ErrorKind::kInvalid,
                 "buffer " + std::to_string(i) +
                     " was resized, converted or moved to another device, as torch::load() and "
                     "Module::to() do; load and move the model before training starts"};
  }
  return {};
}

void BufferMeans::AddRoots(double weight, std::vector<at::Tensor>& roots) const {
  for (std::size_t i = 0; i < means_.size(); ++i) {
    roots.push_back((means_[i] * (buffers_[i].detach() * weight)).sum());
  }
}

void BufferMeans::Adopt() {
  for (const at::Tensor& mean : means_) mean.detach().copy_(mean.grad());
  Restore();
}

void BufferMeans::Restore() const {
  const at::NoGradGuard no_graph;
  for (std::size_t i = 0; i < means_.size(); ++i) buffers_[i].copy_(means_[i]);
}

}  // namespace ringmaster
