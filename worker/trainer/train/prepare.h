#pragma once

// What a rank needs before it says hello to anybody: its device, its data and model, warmed up.
// Everything that can be wrong without peers is found here. Called by the program, once.

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

// kInvalid: the flags do not fit the job, the device or the data. May throw what LibTorch throws.
Result<Prepared> Prepare(const TrainOptions& options);

// For --dry-run: prepares, and says in some lines what training would be.
Result<std::string> Describe(const TrainOptions& options);

}  // namespace ringmaster::trainer
