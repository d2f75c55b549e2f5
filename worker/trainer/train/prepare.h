#pragma once

// Prepares a rank before it contacts its agent or peers: selects the device, loads data and model,
// warms up the model, and detects all problems that do not involve peers. Called once per process.

#include <memory>
#include <string>

#include "common/base/result.h"
#include "worker/trainer/elastic_torch/buckets.h"
#include "worker/trainer/gpu/gpu.h"
#include "worker/trainer/train/make_workload.h"
#include "worker/trainer/train/train_options.h"

namespace ringmaster::trainer {

struct Prepared {
  std::unique_ptr<Gpu> gpu;  // null: this rank computes on the CPU
  MadeWorkload made;
  BucketOptions buckets;
};

// kInvalid: the flags do not fit the job, the device or the data. May throw LibTorch's exceptions.
Result<Prepared> Prepare(const TrainOptions& options);

// For --dry-run: does the same as Prepare(), and returns a short description of the training.
Result<std::string> Describe(const TrainOptions& options);

}  // namespace ringmaster::trainer
