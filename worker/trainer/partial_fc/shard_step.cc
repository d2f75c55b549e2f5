#include "worker/trainer/partial_fc/shard_step.h"

namespace ringmaster::trainer::partial_fc {

DescentRates RatesOf(const HeadOptions& options, int64_t step) {
  return {.rate = static_cast<float>(options.learning_rate(step)),
          .momentum = static_cast<float>(options.momentum),
          .weight_decay = static_cast<float>(options.weight_decay)};
}

}  // namespace ringmaster::trainer::partial_fc
