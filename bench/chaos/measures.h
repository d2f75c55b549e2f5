#pragma once

// Computes step times and rates from the steps of a run. Pure functions.

#include <vector>

#include "bench/chaos/trail.h"

namespace ringmaster::chaos {

// Returns the median time between two consecutive steps; 0 if there are none.
double MedianStepMillis(const std::vector<Applied>& steps);

struct Window {
  Time begin;
  Time end;
};

// Returns the steps per second in all windows together; 0 if the windows are empty.
double RateOf(const std::vector<Applied>& steps, const std::vector<Window>& windows);

}  // namespace ringmaster::chaos
