#pragma once

// The options of a partial-fc model's head and of its training, equal on all ranks. An update
// depends only on these options, the rows and a step's inputs. Plain values.

#include <cstdint>
#include <functional>
#include <vector>

#include "worker/trainer/elastic/state_version.h"
#include "worker/trainer/partial_fc/class_sampling.h"
#include "worker/trainer/partial_fc/margin.h"

namespace ringmaster::trainer::partial_fc {

struct HeadOptions {
  int64_t classes = 0;
  int64_t dimension = 512;  // length of embeddings and centres
  SamplingOptions sampling;
  Margin margin;
  std::function<double(int64_t step)> learning_rate;  // step counts from 0; must be a pure function
  double momentum = 0.9;
  double weight_decay = 5e-4;
  // Momentum and weight decay also change centres that a step does not sample (dense training).
  bool dense_update = false;
};

// All inputs of a step's update except the row itself. A rank that has completed its forward pass
// has them for all rows.
struct StepInputs {
  StateVersion version;             // the version after the step
  int64_t step = 0;                 // from 0
  std::vector<int64_t> labels{};    // labels of the global batch
  std::vector<float> embeddings{};  // unit vectors: labels.size() × dimension
  std::vector<float> maximum{};     // by sample: the greatest logit of all sampled classes
  std::vector<float> sum{};         // by sample: the sum of e^(logit - maximum) over these classes
  bool excluded = false;            // true: the step updates no rows

  std::size_t bytes() const {
    return labels.size() * sizeof(int64_t) +
           (embeddings.size() + maximum.size() + sum.size()) * sizeof(float);
  }
};

}  // namespace ringmaster::trainer::partial_fc
