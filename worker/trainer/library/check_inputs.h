#pragma once

// Checks what a program passes to Elastic::Start(). Used by Elastic.

#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/result.h"
#include "include/ringmaster/elastic.h"

namespace ringmaster {

// Returns kInvalid, with a message for users, if these arguments cannot be trained with.
Result<void> CheckInputs(const std::vector<at::Tensor>& parameters,
                         const Elastic::Options& options);

}  // namespace ringmaster
