#pragma once

// What the steps of a run say about it: pure.

#include <vector>

#include "bench/chaos/trail.h"

namespace ringmaster::chaos {

// The median time between two steps that follow each other; 0 without any.
double MedianStepMillis(const std::vector<Applied>& steps);

// Steps per second between two moments.
double RateOf(const std::vector<Applied>& steps, Time begin, Time end);

}  // namespace ringmaster::chaos
