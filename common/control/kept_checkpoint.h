#pragma once

// The checkpoint from which a job resumes, as reported by a rank. A plain value.

#include <cstdint>

namespace ringmaster::control {

// The newest complete checkpoint of the job itself.
struct KeptCheckpoint {
  int64_t step = 0;
  int64_t bytes = 0;       // total size of all complete checkpoints that are kept
  int64_t age_millis = 0;  // time since it was completed, by the volume's clock
};

}  // namespace ringmaster::control
