#pragma once

// Finds which rank the others wait for while they connect, after a wait in the store has timed out.

#include <optional>
#include <string>
#include <vector>

#include "worker/trainer/comm/store.h"

namespace ringmaster::trainer {

// The index of the only one of `keys` that does not exist; nothing where several are missing, none
// is, or the store cannot say. Asks for each key for a moment: a store answers at once with what it
// has.
std::optional<std::size_t> OnlyMissing(Store& store, const std::vector<std::string>& keys);

}  // namespace ringmaster::trainer
