#pragma once

// The formats in which gradients are sent, for hosts and GPUs (nvcc compiles this header as C++17).

namespace ringmaster::trainer {

enum class Compression { kNone, kFloat16, kBFloat16, kFloat8E4M3, kFloat8E5M2 };

}  // namespace ringmaster::trainer
