#pragma once

// What the steps of a run say about it: pure.

#include <vector>

#include "bench/chaos/trail.h"

namespace ringmaster::chaos {

// The median time between two steps that follow each other; 0 without any.
double MedianStepMillis(const std::vector<Applied>& steps);

struct Window {
  Time begin;
  Time end;
};

// Steps per second in all these windows together; 0 without any step.
double RateOf(const std::vector<Applied>& steps, const std::vector<Window>& windows);

}  // namespace ringmaster::chaos
