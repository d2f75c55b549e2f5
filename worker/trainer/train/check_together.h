#pragma once

// Checks combinations of ringmaster-train's flags that the checks of single flags cannot detect.

#include "common/base/result.h"
#include "worker/trainer/train/train_options.h"

namespace ringmaster::trainer {

// kInvalid: flags conflict; the message names them and what to pass instead.
Result<void> CheckTogether(const TrainOptions& options);

}  // namespace ringmaster::trainer
