#pragma once

// Gloo as its own examples use it: a context, and one collective after the other on the caller's
// thread. What the trainer's communicator is measured against.

#include <memory>
#include <span>

#include "worker/trainer/membership_source.h"

namespace gloo {
class Context;
}

namespace ringmaster::bench {

// Thread-safety: one thread. May throw what Gloo throws.
class BareGloo {
 public:
  // Connects the ranks of `world` through its store.
  explicit BareGloo(const trainer::World& world);
  ~BareGloo();
  BareGloo(const BareGloo&) = delete;
  BareGloo& operator=(const BareGloo&) = delete;

  // The sum over ranks, in place.
  void AllReduce(std::span<float> values);

 private:
  std::shared_ptr<gloo::Context> context_;
  uint32_t next_tag_ = 0;
};

}  // namespace ringmaster::bench
