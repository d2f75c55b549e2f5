#pragma once

// ResNet-18 for small images (He et al., arXiv 1512.03385, section 4.2, with the four stages of the
// ImageNet network): the common measure of a convolution network whose time is arithmetic. As a
// backbone that ends with 512 pooled features. For ringmaster-bench's throughput.

#include <memory>

#include "worker/trainer/backbones/backbone.h"

namespace ringmaster::bench {

// Of `options` the dimension is 512 whatever it says.
std::unique_ptr<trainer::Backbone> MakeResNet18(const trainer::BackboneOptions& options);

}  // namespace ringmaster::bench
