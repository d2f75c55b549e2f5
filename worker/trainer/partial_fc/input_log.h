#pragma once

// The inputs of the last steps that this rank applied, in order and without gaps. With them, older
// rows of any rank can be updated to the current version.

#include <cstddef>
#include <cstdint>
#include <deque>

#include "worker/trainer/partial_fc/head_options.h"

namespace ringmaster::trainer::partial_fc {

class InputLog {
 public:
  // Adds the inputs of the step after the newest one in the log.
  void Append(StepInputs inputs) { steps_.push_back(std::move(inputs)); }
  // Removes the inputs that rows of `version` or newer do not need.
  void ForgetUntil(const StateVersion& version) {
    while (!steps_.empty() && !(version < steps_.front().version)) steps_.pop_front();
  }
  void Clear() { steps_.clear(); }

  // Returns the number of steps after `version`.
  int64_t StepsAfter(const StateVersion& version) const;
  // Returns the inputs of the first step after `version`. REQUIRES: there is such a step.
  const StepInputs& After(const StateVersion& version) const;

  std::size_t bytes() const;

 private:
  std::deque<StepInputs> steps_;
};

}  // namespace ringmaster::trainer::partial_fc
