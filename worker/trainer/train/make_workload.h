#pragma once

// Creates the workload from flags: reads the data, builds the model, and sets the number of steps
// and the optimizer. Called once, before the program contacts its agent or peers.

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/data/labelled_images.h"
#include "worker/trainer/optim/sgd.h"
#include "worker/trainer/train/train_options.h"
#include "worker/trainer/workloads/workload.h"

namespace ringmaster::trainer {

struct MadeWorkload {
  std::unique_ptr<Workload> workload;
  int64_t steps = 0;  // steps of the whole run
  SgdOptions sgd;
};

// Creates the workload on `device`, as LibTorch names it. kInvalid, with a message: the data cannot
// be read, or does not fit the flags or the device.
Result<MadeWorkload> MakeWorkload(const TrainOptions& options, const std::string& device);

// Reads the digits for the workloads mnist and partial-fc. kInvalid: they cannot be read.
Result<Dataset> LoadDigits(const TrainOptions& options);
Result<LabelledData> LoadLabelled(const TrainOptions& options);

// Returns all flags and data that affect the result of the training (shaping.h).
std::string ShapingOf(const TrainOptions& options, const MadeWorkload& made);

// Returns a hash of all flags and data that must be equal on every rank.
uint64_t FingerprintOf(const TrainOptions& options, const MadeWorkload& made);

}  // namespace ringmaster::trainer
