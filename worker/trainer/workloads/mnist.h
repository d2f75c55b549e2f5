#pragma once

// The convolution network of the Horovod and PyTorch MNIST examples: two 5×5 convolutions of 10 and
// 20 channels with max-pooling, channel dropout, two linear layers of 50 and 10 with dropout,
// log-softmax, negative log-likelihood.

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/trainer/data/dataset.h"
#include "worker/trainer/workloads/workload.h"

namespace ringmaster::trainer {

struct MnistOptions {
  uint64_t seed = 1;
  int64_t global_batch = 64;
  double dropout = 0.5;
  int max_shift = 0;  // training images are moved by up to so many pixels each way, anew every step
};

std::unique_ptr<Workload> MakeMnist(Dataset dataset, const MnistOptions& options);

}  // namespace ringmaster::trainer
