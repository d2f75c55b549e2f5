#pragma once

// The host's copy of a trainable state that is on a device, because syncs, checks and
// checkpoints work on host memory (numeric/checksum.h). State in host memory has no mirror and
// is not copied.

namespace ringmaster::trainer {

class StateMirror {
 public:
  virtual ~StateMirror() = default;

  // Copies the device's state to host memory; call it before reading that memory. Waits until the
  // device has computed the state.
  virtual void Pull() = 0;
  // Copies host memory to the device; call it after writing to host memory.
  virtual void Push() = 0;
};

}  // namespace ringmaster::trainer
