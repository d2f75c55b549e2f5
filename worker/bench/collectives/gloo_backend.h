#pragma once

// The trainer's Gloo communicator as a backend of the bench: the bench's operations run in place
// there, so what out-of-place operations copy first is in their time.

#include <memory>

#include "worker/bench/collectives/backend.h"

namespace ringmaster::bench {

std::unique_ptr<Backend> MakeGlooBackend(const trainer::World& world);

}  // namespace ringmaster::bench
