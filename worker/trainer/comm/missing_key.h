#pragma once

// Finds the rank that did not publish its address, after a wait for all addresses has timed out.

#include <optional>
#include <string>
#include <vector>

#include "worker/trainer/comm/store.h"

namespace ringmaster::trainer {

// Returns the index of the only key in `keys` that does not exist. Returns nothing if several or
// none are missing, or if the store does not respond. Waits only briefly for each key, because a
// store returns existing keys immediately.
std::optional<std::size_t> OnlyMissing(Store& store, const std::vector<std::string>& keys);

}  // namespace ringmaster::trainer
