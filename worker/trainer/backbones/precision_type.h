#pragma once

// Converts the precision that a flag selects to LibTorch's type. Used by backbones and workloads.

#include <c10/core/ScalarType.h>

#include "worker/trainer/numeric/precision.h"

namespace ringmaster::trainer {

// Returns the type of the tensors that layers compute with.
inline c10::ScalarType TypeOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return c10::ScalarType::Float;
    case Precision::kBFloat16:
      return c10::ScalarType::BFloat16;
    case Precision::kFloat16:
      return c10::ScalarType::Half;
  }
  return c10::ScalarType::Float;
}

}  // namespace ringmaster::trainer
