#pragma once

// A trainable state that lives on a device, seen from the host: what syncs, checks and keeps
// states works on host memory (numeric/checksum.h), which is a copy of the device's there. Where
// the state lives in host memory itself there is no mirror, and nothing is copied.

namespace ringmaster::trainer {

class StateMirror {
 public:
  virtual ~StateMirror() = default;

  // The device's state into the host's memory, before that is read. Waits until the device has
  // computed it.
  virtual void Pull() = 0;
  // The host's memory to the device, after it was written.
  virtual void Push() = 0;
};

}  // namespace ringmaster::trainer
