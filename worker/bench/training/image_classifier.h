#pragma once

// A convolutional network with a linear layer and cross-entropy on generated images in memory. The
// throughput bench uses it where arithmetic should dominate the step time.
// bench/peers/torchrun/networks.py builds the same network.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/workloads/workload.h"

namespace ringmaster::bench {

// A network and the default options of its measurement.
struct ImageNetwork {
  const char* name;
  int64_t side;  // width and height of its images, which have three channels
  int64_t classes;
  int64_t global_batch;
  int64_t steps;
};

// "resnet18" for images of 32×32 pixels, and "iresnet18", partial-fc's backbone, for 56×56.
const std::vector<ImageNetwork>& ImageNetworks();

// Returns a workload on `samples` random images in host memory. REQUIRES: samples >= global_batch.
std::unique_ptr<trainer::Workload> MakeImageClassifier(const ImageNetwork& network,
                                                       int64_t global_batch, int64_t samples);

}  // namespace ringmaster::bench
