#pragma once

// Tells whether a volume still takes data. Training waits at its end for the last checkpoint for as
// long as the volume takes data, but a volume that hangs must not keep the job for ever.

#include <chrono>
#include <cstdint>

namespace ringmaster::trainer {

class VolumeWatch {
 public:
  explicit VolumeWatch(std::chrono::milliseconds limit) : limit_(limit) {}

  // Call it after every wait. `taken`: number of bytes that the volume has taken so far. Returns
  // true once the waits add up to the limit without a change of this number.
  bool Stuck(uint64_t taken, std::chrono::milliseconds waited) {
    unchanged_ = taken == taken_ ? unchanged_ + waited : std::chrono::milliseconds(0);
    taken_ = taken;
    return unchanged_ >= limit_;
  }

 private:
  const std::chrono::milliseconds limit_;
  uint64_t taken_ = 0;
  std::chrono::milliseconds unchanged_{0};
};

}  // namespace ringmaster::trainer
