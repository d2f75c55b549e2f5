#pragma once

// Checks combinations of ringmaster-train's flags that the checks of single flags cannot detect.

#include "common/base/result.h"
#include "worker/trainer/train/train_options.h"

namespace ringmaster::trainer {

// kInvalid: which flags, and what to pass instead, in a sentence.
Result<void> CheckTogether(const TrainOptions& options);

}  // namespace ringmaster::trainer
