#pragma once

// Finds which rank the others wait for while they connect, after a wait in the store has timed out.

#include <optional>
#include <string>
#include <vector>

#include "worker/trainer/comm/store.h"

namespace ringmaster::trainer {

// The index of the one key in `keys` that does not exist; nothing if several or none are missing,
// or the store cannot tell. Waits only briefly for each key: a store returns the keys that it has
// at once.
std::optional<std::size_t> OnlyMissing(Store& store, const std::vector<std::string>& keys);

}  // namespace ringmaster::trainer
