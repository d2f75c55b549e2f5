#pragma once

// The buffers of a program's model (Elastic::Options::buffers) and their means over the ranks.
// Buckets reduces the means with the gradients: to autograd, a mean is a parameter whose gradient
// is the buffer. Used by Elastic.
//
// Not thread-safe.

#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/result.h"

namespace ringmaster {

class BufferMeans {
 public:
  BufferMeans() = default;  // without buffers
  explicit BufferMeans(const std::vector<at::Tensor>& buffers);

  // By buffer: its mean after the last applied step.
  const std::vector<at::Tensor>& means() const { return means_; }

  // Returns kInvalid if the program has resized, converted or moved a buffer.
  Result<void> Check() const;

  // Adds a root of the backward pass for each buffer. The pass makes the buffer, multiplied by
  // `weight`, the gradient of its mean. The sum of these gradients over the ranks is the new mean.
  void AddRoots(double weight, std::vector<at::Tensor>& roots) const;

  // Makes the reduced gradients the means, and sets the buffers to them.
  void Adopt();

  // Undoes the changes of the buffers since the last applied step.
  void Restore() const;

 private:
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> means_;
};

}  // namespace ringmaster
