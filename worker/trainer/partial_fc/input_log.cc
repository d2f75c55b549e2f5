#include "worker/trainer/partial_fc/input_log.h"

#include <algorithm>

namespace ringmaster::trainer::partial_fc {

int64_t InputLog::StepsAfter(const StateVersion& version) const {
  return steps_.end() - std::ranges::upper_bound(steps_, version, {}, &StepInputs::version);
}

const StepInputs& InputLog::After(const StateVersion& version) const {
  return *std::ranges::upper_bound(steps_, version, {}, &StepInputs::version);
}

std::size_t InputLog::bytes() const {
  std::size_t bytes = 0;
  for (const StepInputs& inputs : steps_) bytes += inputs.bytes();
  return bytes;
}

}  // namespace ringmaster::trainer::partial_fc
