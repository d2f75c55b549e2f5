#pragma once

// The convolutional network of the Horovod and PyTorch MNIST examples: 5×5 convolutions of 10 and
// 20 channels with max-pooling, channel dropout, two linear layers of 50 and 10 with dropout,
// log-softmax, negative log-likelihood.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/data/dataset.h"
#include "worker/trainer/numeric/precision.h"
#include "worker/trainer/optim/loss_scale.h"
#include "worker/trainer/workloads/workload.h"

namespace ringmaster::trainer {

struct MnistOptions {
  uint64_t seed = 1;
  int64_t global_batch = 64;
  double dropout = 0.5;
  int max_shift =
      0;  // maximum number of pixels by which a training image is shifted in each direction
  int loader_threads = 1;       // number of threads that assemble batches ahead
  bool constant_batch = false;  // whether all steps use the first step's samples, without data I/O
  std::string device = "cpu";   // the device to compute on, as LibTorch names it
  Precision precision = Precision::kFloat32;
  std::shared_ptr<const LossScale> loss_scale{};  // null: gradients are not scaled
};

std::unique_ptr<Workload> MakeMnist(Dataset dataset, const MnistOptions& options);

}  // namespace ringmaster::trainer
