#pragma once

// What no single flag's check sees: which flags of ringmaster-train do not go together.

#include "common/base/result.h"
#include "worker/trainer/train/train_options.h"

namespace ringmaster::trainer {

// kInvalid: which flags, and what to pass instead, in a sentence.
Result<void> CheckTogether(const TrainOptions& options);

}  // namespace ringmaster::trainer
