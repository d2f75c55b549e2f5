#pragma once

// The precision of a network's convolutions and linear layers, forward and backward. Parameters,
// gradients, normalisation, losses and the optimizer use float (mixed precision: Micikevicius et
// al., arXiv 1710.03740).

namespace ringmaster::trainer {

enum class Precision { kFloat32, kBFloat16, kFloat16 };

inline const char* NameOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return "fp32";
    case Precision::kBFloat16:
      return "bf16";
    case Precision::kFloat16:
      return "fp16";
  }
  return "fp32";
}

}  // namespace ringmaster::trainer
