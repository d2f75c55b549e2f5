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

// One network and how it is measured unless flags say otherwise.
struct ImageNetwork {
  const char* name;
  int64_t side;  // of its square images, three channels
  int64_t classes;
  int64_t global_batch;
  int64_t steps;
};

// "resnet18" on 32×32 and "iresnet18", the backbone of partial-fc, on 56×56.
const std::vector<ImageNetwork>& ImageNetworks();

// Each batch of `samples` images, REQUIRES: samples >= global_batch. On the host.
std::unique_ptr<trainer::Workload> MakeImageClassifier(const ImageNetwork& network,
                                                       int64_t global_batch, int64_t samples);

}  // namespace ringmaster::bench
