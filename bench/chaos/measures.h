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

// The steps in all windows divided by their total time in seconds; 0 if that time is 0.
double RateOf(const std::vector<Applied>& steps, const std::vector<Window>& windows);

}  // namespace ringmaster::chaos
