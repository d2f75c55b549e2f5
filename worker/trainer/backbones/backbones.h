#pragma once

// The networks that MakeBackbone() can create. Used by backbones.cc and its tests.

#include <array>
#include <memory>

#include "worker/trainer/backbones/backbone.h"

namespace ringmaster::trainer {

// The number of blocks in each of the four stages.
using IResNetStages = std::array<int, 4>;
std::unique_ptr<Backbone> MakeIResNet(const BackboneOptions& options, const IResNetStages& stages);

// Two strided convolutions and a linear layer, without batch normalisation: the result for a sample
// does not depend on the other samples, so it is the same in worlds of every size.
std::unique_ptr<Backbone> MakeSmallNet(const BackboneOptions& options);

}  // namespace ringmaster::trainer
