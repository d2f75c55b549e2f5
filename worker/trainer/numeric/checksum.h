#pragma once

// The checksum by which ranks compare their states: of the bits of all values, in order. Equal
// states have equal checksums; it finds differences, and guards against no attacker. Fast enough to
// run after every step: several lanes, so that the processor multiplies them side by side.

#include <cstdint>
#include <span>
#include <vector>

namespace ringmaster::trainer {

// All that training changes and a rank must take over from another: flat memory, in a fixed order
// (parameters, then what the optimizer keeps). The memory stays where it is.
using TrainableState = std::vector<std::span<float>>;

uint64_t Checksum(std::span<const float> values);
uint64_t Checksum(const TrainableState& state);

}  // namespace ringmaster::trainer
