#pragma once

// The checkpoint that a rank reports when its job resumes from it. A value.

#include <cstdint>

namespace ringmaster::control {

// The newest complete checkpoint of the job itself.
struct KeptCheckpoint {
  int64_t step = 0;
  int64_t bytes = 0;       // held by all complete ones that are kept
  int64_t age_millis = 0;  // since it was complete, by the volume's clock
};

}  // namespace ringmaster::control
