#pragma once

// The checksum by which ranks compare their states, over the bits of all values in order. It
// detects differences but does not protect against attackers. It is fast enough for every step,
// because it uses several lanes, which the processor multiplies in parallel.

#include <cstdint>
#include <span>
#include <vector>

namespace ringmaster::trainer {

// All data that training changes and that a joining rank must receive: flat memory, in a fixed
// order (parameters, then the optimizer's state). The memory must not move.
using TrainableState = std::vector<std::span<float>>;

uint64_t Checksum(std::span<const float> values);
uint64_t Checksum(const TrainableState& state);

}  // namespace ringmaster::trainer
