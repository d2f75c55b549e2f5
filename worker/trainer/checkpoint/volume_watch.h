#pragma once

// Tells whether a volume still takes data. Training waits at its end for the last checkpoint for as
// long as the volume takes data, but a volume that hangs must not keep the job for ever. Waits that
// the volume does not cause, such as for the launcher's grant, do not count.

#include <chrono>
#include <cstdint>

namespace ringmaster::trainer {

class VolumeWatch {
 public:
  explicit VolumeWatch(std::chrono::milliseconds limit) : limit_(limit) {}

  // Call it after every wait. `taken`: number of bytes that the volume has taken so far. `used`: a
  // thread is using the volume. Returns true once the waits add up to the limit while the volume is
  // used and this number does not change.
  bool Stuck(uint64_t taken, bool used, std::chrono::milliseconds waited) {
    unchanged_ = used && taken == taken_ ? unchanged_ + waited : std::chrono::milliseconds(0);
    taken_ = taken;
    return unchanged_ >= limit_;
  }

 private:
  const std::chrono::milliseconds limit_;
  uint64_t taken_ = 0;
  std::chrono::milliseconds unchanged_{0};
};

}  // namespace ringmaster::trainer
