#pragma once

// Computes figures from the steps of a run. Pure functions.

#include <vector>

#include "bench/chaos/trail.h"

namespace ringmaster::chaos {

// The median time between two consecutive steps; 0 if there are none.
double MedianStepMillis(const std::vector<Applied>& steps);

struct Window {
  Time begin;
  Time end;
};

// Steps per second over all these windows together; 0 if there are no steps.
double RateOf(const std::vector<Applied>& steps, const std::vector<Window>& windows);

}  // namespace ringmaster::chaos
