#pragma once

// The formats that gradients travel in, for hosts and GPUs (nvcc takes this header as C++17).

namespace ringmaster::trainer {

enum class Compression { kNone, kFloat16, kBFloat16, kFloat8E4M3, kFloat8E5M2 };

}  // namespace ringmaster::trainer
